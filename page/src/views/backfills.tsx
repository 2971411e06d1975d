import { route } from '../router'
import BackfillView from './backfill'
import { NewBackfill } from './backfills/create'
import { BackfillList } from './backfills/list'
import './backfills.css'

/** Backfills: the list, one of them (`#/backfills/ID`), or the form of a new one (`#/backfills?new=1&asset=…`). */
export default function BackfillsView() {
  const { path, query } = route.value
  if (path[1] !== undefined) return <BackfillView key={path[1]} id={path[1]} />
  return query.new ? <NewBackfill /> : <BackfillList />
}
