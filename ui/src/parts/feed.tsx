// Events as they happen, the newest first, and those from before on demand.
import { useInfiniteQuery, useQueryClient } from '@tanstack/react-query'
import { useCallback, useEffect, useState } from 'react'

import { answer, api, type Event, type Schemas } from '../api'
import { useEvents } from '../live'
import { clock } from '../words'
import { Loaded, Older } from './panel'
import { useNow } from './time'

type List = Schemas['ListEvent']

/** shown is how many events a feed begins with, and how many older ones come at a time. */
const shown = 12

/** most is how many events are kept of those that were heard; then the list is asked for again. */
const most = 1000

/** told is what an event tells, with the node that it is of if that stands nowhere else. */
const told = (e: Event, named: boolean) => [named && e.node, e.phase && `${e.phase}:`, e.text].filter(Boolean).join(' ')

/** Feed shows events: of a cluster of a project, of a project, of a machine, or all that somebody may see. */
export function Feed({ project, cluster, machine }: { project?: string; cluster?: string; machine?: string }) {
  const queries = useQueryClient()
  const key = ['events', project ?? '', cluster ?? '', machine ?? '']
  const [heard, setHeard] = useState<Event[]>([])
  const concerned = (e: Event) =>
    (project ?? e.project) === e.project && (cluster ?? e.cluster) === e.cluster && (machine ?? e.machine) === e.machine
  const query = useInfiniteQuery({
    queryKey: key,
    staleTime: 0, // it hears events only while it is shown
    queryFn: async ({ pageParam: before }): Promise<List> => {
      const query = { newest: true, limit: shown, before }
      const list = await answer<string | List>(
        cluster === undefined
          ? api.GET('/v1/events', { params: { query: { ...query, ...(project && { project }), ...(machine && { machine }) } } })
          : api.GET('/v1/clusters/{cluster}/events', { params: { query, path: { cluster: `${project}/${cluster}` } } }),
      )
      return typeof list === 'string' ? { items: [] } : list // text is a stream's
    },
    initialPageParam: 0,
    getNextPageParam: (last) => (last.next ? Number(last.next) : undefined),
  })
  useEvents(
    useCallback(
      (e: Event) => {
        if (concerned(e)) setHeard((before) => [e, ...before])
      },
      [project, cluster, machine],
    ),
  )
  useEffect(() => {
    if (heard.length < most) return
    setHeard([])
    void queries.resetQueries({ queryKey: key })
  }, [heard])
  const now = new Date(useNow())
  return (
    <>
      <Loaded query={query}>
        {({ pages }) => {
          const both = [...pages.flatMap((page) => page.items), ...heard.filter(concerned)]
          const all = [...new Map(both.map((e) => [e.seq, e])).values()].sort((a, b) => b.seq - a.seq)
          return (
            <div className="in feed" role="log" aria-live="off" aria-label="Events">
              {all.length === 0 && <span className="faint">Nothing has happened yet.</span>}
              {all.slice(0, pages.length > 1 ? undefined : shown).map((e) => (
                <div key={e.seq} style={{ display: 'contents' }}>
                  <time dateTime={e.at}>{clock(new Date(e.at), now)}</time>
                  <span className="of clip">{(cluster === undefined ? e.cluster : e.node) || e.machine || ''}</span>
                  <span className={e.seq === heard.find(concerned)?.seq ? 'new' : undefined}>
                    {told(e, cluster === undefined)}
                  </span>
                </div>
              ))}
            </div>
          )
        }}
      </Loaded>
      <Older query={query} />
    </>
  )
}
