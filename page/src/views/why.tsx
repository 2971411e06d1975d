import { Problem } from '../api'
import { Body, Empty, Heading } from '../parts/basics'
import { Cli } from '../parts/cli'
import { quote, visible } from '../format'
import { route } from '../router'
import { Answer } from './why/answer'
import { useWhy } from './why/data'
import { Find } from './why/find'
import { Moment } from './why/moment'
import './why.css'

/** Why an asset was, or was not, produced: `#/why/ID?at=TIME&partition=KEY`. Without an asset, a search for one. */
export default function WhyView() {
  const id = route.value.path[1]
  return id === undefined ? <Find /> : <Explained key={id} id={id} />
}

function Explained({ id }: { id: string }) {
  const { at = '', partition = '' } = route.value.query
  const loaded = useWhy(id, at, partition)
  const unknown = loaded.error instanceof Problem && loaded.error.status === 404
  return (
    <>
      <Heading title={id} kind="why" />
      {unknown ? (
        <Empty title={`There is no asset or workflow ${visible(id)}.`}><p><a href="#/why">Search for another one</a>.</p></Empty>
      ) : (
        <>
          <Moment id={id} at={at} partition={partition} data={loaded.data} />
          <Body from={loaded} lines={6}>{(data) => <Answer data={data} at={at} reload={loaded.reload} />}</Body>
        </>
      )}
      <Cli command={`freshline why ${quote(id)}${partition === '' ? '' : ` --partition ${quote(partition)}`}`} />
    </>
  )
}
