// What a project has used in a month, and what it cost.
import { queryOptions, useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'

import { answer, api } from '../api'
import { Icon } from '../parts/icon'
import { Command, Loaded, Panel } from '../parts/panel'
import { Table } from '../parts/table'
import { useTitle } from '../parts/title'
import { money } from '../words'

const route = getRouteApi('/projects/$project/usage')

/** monthOf is a month, so many before the present one, in UTC, as statements are. */
function monthOf(back: number) {
  const now = new Date()
  const start = (n: number) => new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - n, 1))
  const words = start(back).toLocaleString('en-GB', { month: 'long', year: 'numeric', timeZone: 'UTC' })
  return { from: start(back).toISOString(), to: start(back - 1).toISOString(), words }
}

const usageQuery = (project: string, from: string, to: string) =>
  queryOptions({
    queryKey: ['usage', project, from],
    queryFn: () => answer(api.GET('/v1/usage', { params: { query: { project, from, to, by: 'queue' } } })),
    staleTime: 0,
  })

export function Usage() {
  const { project } = route.useParams()
  const { back = 0 } = route.useSearch()
  const month = monthOf(back)
  useTitle(`Usage of ${project}`)
  return (
    <>
      <div className="head">
        <div>
          <h1>Usage and cost of {project}</h1>
          <p className="dim">{month.words}, in UTC</p>
        </div>
        <div className="actions">
          <Link className="btn" to="/projects/$project/usage" params={{ project }} search={{ back: back + 1 }}>
            The month before
          </Link>
          {back > 0 && (
            <Link className="btn" to="/projects/$project/usage" params={{ project }} search={back > 1 ? { back: back - 1 } : {}}>
              The month after
            </Link>
          )}
        </div>
      </div>
      <Loaded query={useQuery(usageQuery(project, month.from, month.to))}>
        {(s) => {
          const total = s.total ? money(s.total) : undefined
          return (
            <div className="stack">
              <section className="panel" aria-label="Sum">
                <div className="sum">
                  {total && (
                    <div className="big">
                      <b>
                        {total.number} <small>{total.currency}</small>
                      </b>
                      <span>charged</span>
                    </div>
                  )}
                  <div className="big">
                    <b>{s.node_hours.toFixed(1)}</b>
                    <span>node-hours charged</span>
                  </div>
                </div>
              </section>
              <Panel
                title="By queue"
                more={<Command text={`muster cost --project ${project} --month ${month.from.slice(0, 7)}`} />}
              >
                <Table
                  label="Usage by queue"
                  rows={s.lines}
                  of={(l) => `${l.cluster_id} ${l.kind} ${l.queue} ${l.class} ${l.rate} ${l.from}`}
                  none="Nothing was used."
                  columns={[
                    ['Cluster', (l) => l.cluster],
                    ['What', (l) => l.queue ?? (l.kind === 'home' ? '/home' : 'head')],
                    ['Class', (l) => l.class],
                    ['Nodes', (l) => l.nodes || '', 'right'],
                    [
                      'Charged',
                      (l) =>
                        l.gib_months ? `${l.gib_months.toFixed(2)} GiB-months` : `${(l.charged_seconds / 3600).toFixed(2)} h`,
                      'right',
                    ],
                    ['Rate', (l) => l.rate, 'right'],
                    ['Cost', (l) => l.cost && money(l.cost).number, 'right'],
                  ]}
                />
              </Panel>
              <p className="faint line">
                <Icon name="info" /> Each line is charged time at one rate, rounded once. The total is the sum of the lines.
              </p>
            </div>
          )
        }}
      </Loaded>
    </>
  )
}
