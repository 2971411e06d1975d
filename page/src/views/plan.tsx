import { Heading, Tabs } from '../parts/basics'
import { href, route } from '../router'
import { Simulate } from './plan/simulate'
import { Wave } from './plan/wave'
import './plan.css'

/** What would happen: after a change of an asset, or under another policy. Neither changes anything. */
export default function PlanView() {
  const { query } = route.value
  const tab = query.tab === 'simulate' ? 'simulate' : ''
  return (
    <>
      <Heading title="Plan and simulate" />
      <Tabs
        tabs={[['', 'If an asset changed'], ['simulate', 'If a policy were another']]} current={tab}
        at={(one) => href(['plan'], { ...query, tab: one })}
      />
      {tab === 'simulate' ? <Simulate /> : <Wave />}
    </>
  )
}
