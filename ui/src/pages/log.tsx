// Who does what now, and who did: SSH sessions and the audit log, as far as one may see them.
import { queryOptions, useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'

import { answer, api, type Schemas } from '../api'
import { siteQuery } from '../data'
import { Ask } from '../parts/ask'
import { Pick, Text, useTyped } from '../parts/fields'
import { Loaded, Older, Panel } from '../parts/panel'
import { Table } from '../parts/table'
import { Ago } from '../parts/time'
import { useTitle } from '../parts/title'
import { bytes, clock } from '../words'

type Session = Schemas['Session']

/** shown is how many sessions are listed. */
const shown = 200

const sessionsQuery = queryOptions({
  queryKey: ['sessions'],
  queryFn: () => answer(api.GET('/v1/sessions', { params: { query: { limit: shown } } })),
  staleTime: 0,
  refetchInterval: 10_000, // they begin and end without an event
})

export function Sessions() {
  useTitle('SSH sessions')
  const [ending, setEnding] = useState<Session>()
  const query = useQuery(sessionsQuery)
  const acts = useQuery(siteQuery).data?.scope === 'all'
  return (
    <>
      <div className="head">
        <h1>SSH sessions</h1>
      </div>
      <Panel title="Open now">
        <Loaded query={query}>
          {(list) => (
            <Table
              label="SSH sessions"
              rows={list.items}
              of={(s) => s.id}
              columns={[
                ['Who', (s) => s.person],
                ['Where', (s) => `${s.project}/${s.place}`],
                ['What', (s) => s.what],
                ['From', (s) => s.remote, 'mono'],
                ['Since', (s) => <Ago at={s.began_at} />],
                ['Received', (s) => bytes(s.received), 'right'],
                ['Sent', (s) => bytes(s.sent), 'right'],
                ['', (s) => s.recorded && 'recorded'],
                [
                  '',
                  (s) =>
                    acts && (
                      <button type="button" className="btn quiet small" onClick={() => setEnding(s)}>
                        End
                      </button>
                    ),
                ],
              ]}
            />
          )}
        </Loaded>
        {query.data?.next && <footer>Only the first {shown} are listed.</footer>}
      </Panel>
      {ending && <End s={ending} onClose={() => setEnding(undefined)} />}
    </>
  )
}

function End({ s, onClose }: { s: Session; onClose: () => void }) {
  const queries = useQueryClient()
  return (
    <Ask
      title={`End the session of ${s.person}`}
      act="End it"
      bad
      command={`muster sessions end ${s.id}`}
      onAct={async () => {
        await answer(api.DELETE('/v1/sessions/{session}', { params: { path: { session: s.id } } }))
        await queries.invalidateQueries({ queryKey: sessionsQuery.queryKey })
      }}
      onClose={onClose}
    >
      <p className="dim">
        {s.what} on {s.project}/{s.place} ends now, with all others on the same connection. They may begin another.
      </p>
    </Ask>
  )
}

const route = getRouteApi('/audit')

export function Audit() {
  useTitle('Audit log')
  const of = route.useSearch()
  const navigate = useNavigate()
  const narrow = (to: { [K in keyof typeof of]: string }) => {
    const search = (now: typeof of) => Object.fromEntries(Object.entries({ ...now, ...to }).filter(([, v]) => v)) as typeof of
    void navigate({ from: '/audit', search, replace: true })
  }
  const [person, typePerson] = useTyped(of.person ?? '', (text) => narrow({ person: text }))
  const [action, typeAction] = useTyped(of.action ?? '', (text) => narrow({ action: text }))
  const [object, typeObject] = useTyped(of.object ?? '', (text) => narrow({ object: text }))
  const query = useInfiniteQuery({
    queryKey: ['audit', of],
    queryFn: ({ pageParam }) =>
      answer(
        api.GET('/v1/audit', {
          params: { query: { limit: 100, show: 'acts', ...of, ...(pageParam ? { cursor: pageParam } : {}) } },
        }),
      ),
    initialPageParam: '',
    getNextPageParam: (last) => last.next,
    staleTime: 0,
  })
  const now = new Date()
  return (
    <>
      <div className="head">
        <h1>Audit log</h1>
        <div className="actions">
          <Text label="Who" value={person} onChange={typePerson} placeholder="everybody" />
          <Text label="What" value={action} onChange={typeAction} placeholder="anything" />
          <Text label="To" value={object} onChange={typeObject} placeholder="anything" />
          <Pick
            label="Show"
            value={of.show ?? 'acts'}
            values={[
              ['acts', 'what was done'],
              ['refused', 'what was refused'],
              ['all', 'reading, too'],
            ]}
            onChange={(show) => narrow({ show })}
          />
        </div>
      </div>
      <Panel title="Newest first">
        <Loaded query={query}>
          {(data) => (
            <Table
              label="Audit log"
              rows={data.pages.flatMap((page) => page.items)}
              of={(e) => e.id}
              columns={[
                ['When', (e) => clock(new Date(e.at), now)],
                ['Who', (e) => e.person],
                ['What', (e) => e.action],
                ['Project', (e) => e.project],
                ['To', (e) => e.object, 'wrap'],
                ['Outcome', (e) => e.outcome],
                ['Door', (e) => e.door],
                ['From', (e) => e.remote, 'mono'],
              ]}
            />
          )}
        </Loaded>
        <Older query={query} />
      </Panel>
    </>
  )
}
