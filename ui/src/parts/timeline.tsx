// How a cluster's nodes come, each on a line, step by step.
import { queryOptions, useQuery, useQueryClient } from '@tanstack/react-query'
import { useCallback } from 'react'

import { answer, api, type Cluster, type Event, type Schemas } from '../api'
import { useEvents } from '../live'
import { type Start, spanOf, startsOf, steps } from '../starts'
import { count, span } from '../words'
import { Panel } from './panel'
import { markOf } from './state'
import { useNow } from './time'

/** shownFor is how long a start is shown after its end, in milliseconds. */
const shownFor = 10 * 60_000

const startsQuery = (project: string, cluster: string) =>
  queryOptions({
    queryKey: ['starts', `${project}/${cluster}`],
    staleTime: 0, // it hears events only while it is shown
    queryFn: async () => {
      const list = await answer<string | Schemas['ListEvent']>(
        api.GET('/v1/clusters/{cluster}/events', {
          params: { path: { cluster: `${project}/${cluster}` }, query: { newest: true, limit: 1000 } },
        }),
      )
      return typeof list === 'string' ? [] : list.items
    },
  })

/** kept is how many events of a cluster are kept for its timeline. */
const kept = 2000

/** Timeline shows how nodes start while any does, and for a while after. */
export function Timeline({ c }: { c: Cluster }) {
  const queries = useQueryClient()
  const query = startsQuery(c.project, c.name)
  const events = useQuery(query).data
  useEvents(
    useCallback(
      (e: Event) => {
        if (e.type === 'node.phase' && e.cluster_id === c.id)
          queries.setQueryData(query.queryKey, (all) => all && [e, ...all.filter((o) => o.seq !== e.seq)].slice(0, kept))
      },
      [c.id],
    ),
  )
  const now = useNow()
  const all = [...startsOf(c.nodes, events ?? []).values()].filter((starts) => {
    const last = starts.at(-1)
    return last && (!last.ended || now - (last.steps.at(-1)?.until ?? now) < shownFor)
  })
  const { from, until } = spanOf(all.flat(), now)
  if (all.length === 0) return null
  const coming = all.filter((starts) => !starts.at(-1)?.ended).length
  const place = (at: number) => `${(100 * (at - from)) / (until - from)}%`
  return (
    <Panel
      title={coming ? 'What it is waiting for' : 'How it came'}
      beside={
        <span className="dim">{coming ? `${count(coming, 'node')} of ${all.length}` : `${count(all.length, 'node')}`}</span>
      }
      more={`${span((until - from) / 1000)} in all`}
    >
      <div className="boot">
        {all.map((starts) => (
          <Line key={starts[0]?.node} starts={starts} place={place} now={now} c={c} />
        ))}
      </div>
      <Legend of={steps} />
    </Panel>
  )
}

export function Bars({ starts, place, now }: { starts: Start[]; place: (at: number) => string; now: number }) {
  return (
    <span className="bars" aria-hidden="true">
      {starts.flatMap((s) =>
        s.steps.map((one) => (
          <i
            key={`${one.from} ${one.phase}`}
            className={`bar ${s.ended === 'failed' ? 'failed' : one.phase}`}
            style={{ left: place(one.from), right: `calc(100% - ${place(one.until ?? now)})` }}
          />
        )),
      )}
    </span>
  )
}

export function Legend({ of }: { of: readonly (readonly [phase: string, words: string])[] }) {
  return (
    <footer className="legend">
      {of.map(([phase, words]) => (
        <span key={phase}>
          <i className={`bar ${phase}`} /> {words}
        </span>
      ))}
      <span>
        <i className="bar failed" /> did not come
      </span>
    </footer>
  )
}

function Line({ starts, place, now, c }: { starts: Start[]; place: (at: number) => string; now: number; c: Cluster }) {
  const last = starts.at(-1)
  const node = c.nodes.find((n) => n.name === last?.node)
  const step = last?.steps.at(-1)
  const took = ((step?.until ?? now) - (last?.steps[0]?.from ?? now)) / 1000
  return (
    <>
      <span className="n">
        {node && <i className={`m ${markOf(node).mark}`} aria-hidden="true" />}
        {last?.node}
      </span>
      <Bars starts={starts} place={place} now={now} />
      <span className="s clip">
        {last?.ended === 'ready' ? `ready after ${span(took)}` : (node?.reason ?? `${step?.phase} for ${span(took)}`)}
      </span>
    </>
  )
}
