// How a machine has booted, step by step, the newest boot first.
import { queryOptions, useQuery, useQueryClient } from '@tanstack/react-query'
import { useCallback } from 'react'

import { answer, api, type Event, type Schemas } from '../api'
import { useEvents } from '../live'
import { bootSteps, bootsOf, type Start } from '../starts'
import { span } from '../words'
import { Panel } from './panel'
import { Ago, useNow } from './time'
import { Bars, Legend } from './timeline'

/** shown is how many boots are. */
const shown = 5

/** read is how many of a machine's events are, and kept of those that were heard besides. */
const read = 200
const kept = 1000

const bootsQuery = (machine: string) =>
  queryOptions({
    queryKey: ['boots', machine],
    staleTime: 0, // it hears events only while it is shown
    queryFn: async () => {
      const list = await answer<string | Schemas['ListEvent']>(
        api.GET('/v1/events', { params: { query: { machine, newest: true, limit: read } } }),
      )
      return typeof list === 'string' ? [] : list.items
    },
  })

const tookOf = (b: Start, now: number) => (b.steps.at(-1)?.until ?? now) - (b.steps[0]?.from ?? now)

/** Boots shows the last boots of a machine beside each other, each from its own beginning. */
export function Boots({ machine }: { machine: string }) {
  const queries = useQueryClient()
  const query = bootsQuery(machine)
  const events = useQuery(query).data
  useEvents(
    useCallback(
      (e: Event) => {
        if (e.machine === machine)
          queries.setQueryData(query.queryKey, (all) => all && [e, ...all.filter((o) => o.seq !== e.seq)].slice(0, kept))
      },
      [machine],
    ),
  )
  const now = useNow()
  const boots = bootsOf(events ?? [])
    .slice(-shown)
    .toReversed()
  if (boots.length === 0) return null
  const longest = Math.max(1, ...boots.map((b) => tookOf(b, now)))
  return (
    <Panel title="Boots" more={`${span(longest / 1000)} wide`}>
      <div className="boot">
        {boots.map((b) => {
          const from = b.steps[0]?.from ?? now
          return <Boot key={from} b={b} now={now} from={from} place={(at) => `${(100 * (at - from)) / longest}%`} />
        })}
      </div>
      <Legend of={bootSteps} />
    </Panel>
  )
}

function Boot({ b, now, from, place }: { b: Start; now: number; from: number; place: (at: number) => string }) {
  const took = span(tookOf(b, now) / 1000)
  return (
    <>
      <span className="n">
        <span className="clip">{b.node}</span>
      </span>
      <Bars starts={[b]} place={place} now={now} />
      <span className="s clip">
        {b.ended === 'ready' ? `ready after ${took}` : b.ended ? `did not come in ${took}` : `${took} so far`},{' '}
        <Ago at={new Date(from).toISOString()} />
      </span>
    </>
  )
}
