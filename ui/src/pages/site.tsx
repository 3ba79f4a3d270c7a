// The site, for its operators: what needs them, and what happens.
import { queryOptions, useQuery } from '@tanstack/react-query'

import { answer, api } from '../api'
import { Feed } from '../parts/feed'
import { Icon } from '../parts/icon'
import { Facts, Loaded, Panel } from '../parts/panel'
import { useTitle } from '../parts/title'
import { Ago } from '../parts/time'

const statusQuery = queryOptions({
  queryKey: ['status'],
  queryFn: () => answer(api.GET('/v1/status')),
  refetchInterval: 10_000, // alarms come and go without an event
})

export function Site() {
  useTitle('Site')
  return (
    <Loaded query={useQuery(statusQuery)}>
      {(s) => (
        <>
          <div className="head">
            <div>
              <h1>{s.site}</h1>
              <p className="dim">
                {s.controller}, {s.version}, for <Ago at={s.since} />
              </p>
            </div>
          </div>
          <div className="cols">
            <div className="stack">
              <Panel title="Alarms">
                {s.alarms.length === 0 ? (
                  <div className="in faint">Nothing needs you.</div>
                ) : (
                  <ul className="in attn">
                    {s.alarms.map((a) => (
                      <li key={a.name + a.text}>
                        <span className="t-warn">
                          <Icon name="alert" />
                        </span>
                        <div>
                          <b>{a.name}</b> {a.text}
                        </div>
                      </li>
                    ))}
                  </ul>
                )}
              </Panel>
              <Panel title="Checks">
                <ul className="in attn">
                  {s.checks.map((k) => (
                    <li key={k.name}>
                      <span className={k.ok ? 't-ok' : 't-bad'}>
                        <Icon name={k.ok ? 'tick' : 'cross'} />
                      </span>
                      <div>
                        <b>{k.name}</b> <span className="sr">{k.ok ? 'passes' : 'fails'}</span> {k.text}
                      </div>
                    </li>
                  ))}
                </ul>
              </Panel>
              <Panel title="Just now">
                <Feed />
              </Panel>
            </div>
            <div className="stack">
              {(
                [
                  ['Machines', s.machines],
                  ['Clusters', s.clusters],
                  ['Nodes', s.nodes],
                ] as const
              ).map(([words, counts]) => (
                <Panel key={words} title={words}>
                  <Facts of={Object.entries(counts)} />
                </Panel>
              ))}
            </div>
          </div>
        </>
      )}
    </Loaded>
  )
}
