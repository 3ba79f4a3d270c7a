// What a project has used in a month, or a cluster since it was made, and what it cost.
import { queryOptions, useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'

import { answer, api, type Schemas } from '../api'
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
        {(s) => (
          <Statement
            by="queue"
            total={s.total}
            seconds={s.node_hours * 3600}
            lines={s.lines}
            command={`muster cost --project ${project} --month ${month.from.slice(0, 7)}`}
          />
        )}
      </Loaded>
    </>
  )
}

type Line = Schemas['UsageLine']

/** Statement is what was charged: the sum, and a line for each queue, or for each node, at one rate. */
function Statement(props: {
  by: 'queue' | 'node'
  total: string | undefined
  seconds: number // of nodes
  lines: Line[]
  command: string
}) {
  const sum = props.total ? money(props.total) : undefined
  const linked = (l: Line) => (
    <Link to="/projects/$project/cost/$cluster" params={{ project: l.project, cluster: l.cluster_id }}>
      {l.cluster}
    </Link>
  )
  return (
    <div className="stack">
      <section className="panel" aria-label="Sum">
        <div className="sum">
          {sum && (
            <div className="big">
              <b>
                {sum.number} <small>{sum.currency}</small>
              </b>
              <span>charged</span>
            </div>
          )}
          <div className="big">
            <b>{(props.seconds / 3600).toFixed(1)}</b>
            <span>node-hours charged</span>
          </div>
        </div>
      </section>
      <Panel title={`By ${props.by}`} more={<Command text={props.command} />}>
        <Table
          label={`Usage by ${props.by}`}
          rows={props.lines}
          of={(l) => `${l.cluster_id} ${l.kind} ${l.queue} ${l.node} ${l.machine} ${l.class} ${l.rate} ${l.from}`}
          none="Nothing was used."
          columns={[
            props.by === 'node' ? ['Node', (l) => l.node] : ['Cluster', linked],
            ['What', (l) => l.queue ?? (l.kind === 'home' ? '/home' : 'head')],
            ['Class', (l) => l.class],
            props.by === 'node' ? ['Machine', (l) => l.machine, 'mono'] : ['Nodes', (l) => l.nodes || '', 'right'],
            [
              'Charged',
              (l) => (l.gib_months ? `${l.gib_months.toFixed(2)} GiB-months` : `${(l.charged_seconds / 3600).toFixed(2)} h`),
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
}

const costRoute = getRouteApi('/projects/$project/cost/$cluster')

const costQuery = (cluster: string) =>
  queryOptions({
    queryKey: ['cost', cluster],
    queryFn: () => answer(api.GET('/v1/clusters/{cluster}/cost', { params: { path: { cluster }, query: { by: 'node' } } })),
    staleTime: 0,
  })

/** Cost is what a cluster has used since it was made, node by node; one that is gone is named by its ID. */
export function Cost() {
  const { cluster: id } = costRoute.useParams()
  useTitle('Cost of a cluster')
  return (
    <Loaded query={useQuery(costQuery(id))}>
      {(c) => (
        <>
          <div className="head">
            <div>
              <h1>Cost of {c.cluster}</h1>
              <p className="dim">
                since it was made{c.per_hour && `; ${money(c.per_hour).number} ${money(c.per_hour).currency} per hour now`}
              </p>
            </div>
          </div>
          <Statement
            by="node"
            total={c.total}
            seconds={c.lines.reduce((sum, l) => sum + (l.kind === 'node' ? l.charged_seconds : 0), 0)}
            lines={c.lines}
            command={`muster cost ${c.cluster_id}`}
          />
        </>
      )}
    </Loaded>
  )
}
