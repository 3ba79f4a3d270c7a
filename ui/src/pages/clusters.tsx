// Clusters of a project: what each does and waits for, what it has, what it costs.
import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'

import type { Cluster } from '../api'
import { clustersQuery, may, projectsQuery } from '../data'
import { Icon } from '../parts/icon'
import { Command, Loaded, Panel } from '../parts/panel'
import { Marks, Pill, queuesOf } from '../parts/state'
import { useTitle } from '../parts/title'
import { Ago, Until } from '../parts/time'
import { count, money } from '../words'

export const legend = [
  ['busy', 'has jobs'],
  ['idle', 'idle'],
  ['go', 'coming'],
  ['drain', 'drains'],
  ['bad', 'failed'],
] as const

const route = getRouteApi('/projects/$project/clusters')

export function Clusters() {
  const { project } = route.useParams()
  useTitle(`Clusters of ${project}`)
  return (
    <>
      <div className="head">
        <h1>Clusters of {project}</h1>
        <NewCluster project={project} />
      </div>
      <List project={project} />
    </>
  )
}

/** NewCluster leads to a new one, for who may make one. */
export function NewCluster({ project }: { project: string }) {
  const projects = useQuery(projectsQuery).data
  if (!may(projects, project, 'own')) return null
  return (
    <div className="actions">
      <Link className="btn main" to="/projects/$project/new" params={{ project }}>
        <Icon name="plus" /> New cluster <kbd>c</kbd>
      </Link>
    </div>
  )
}

/** List shows the clusters of a project. */
export function List({ project }: { project: string }) {
  const clusters = useQuery({ ...clustersQuery, select: (all) => all.filter((c) => c.project === project) })
  return (
    <Panel
      title="Clusters"
      beside={
        <div className="legend">
          {legend.map(([mark, words]) => (
            <span key={mark}>
              <i className={`m ${mark}`} style={{ '--p': '55%' } as object} />
              {words}
            </span>
          ))}
        </div>
      }
    >
      <Loaded query={clusters}>
        {(all) =>
          all.length > 0 ? (
            <div className="rows">
              {all.map((c) => (
                <Row key={c.id} c={c} />
              ))}
            </div>
          ) : (
            <div className="blank">
              <h2>{project} has no cluster yet</h2>
              <p>A cluster is a head, some nodes, Slurm and MPI. This makes the smallest:</p>
              <Command text={`printf 'name: mine\\nproject: ${project}\\nnodes: 1\\n' | muster create -f - --wait`} />
            </div>
          )
        }
      </Loaded>
    </Panel>
  )
}

/** why is what a cluster does, or what it waits for. */
export function why(c: Cluster): string {
  const ready = c.nodes.filter((n) => n.phase === 'ready').length
  if (c.reason) return c.reason
  if (c.lacks) return c.lacks
  if (c.phase === 'ready') return `${count(ready, 'node')} ready.`
  return `${ready} of ${count(c.nodes.length, 'node')} ready.`
}

function Row({ c }: { c: Cluster }) {
  const busy = c.nodes.filter((n) => n.scheduler?.jobs).length
  const cost = c.cost ? money(c.cost) : undefined
  const perHour = c.per_hour ? money(c.per_hour) : undefined
  return (
    <article className="cl">
      <div>
        <div className="line">
          <Link className="name" to="/projects/$project/clusters/$cluster" params={{ project: c.project, cluster: c.name }}>
            {c.name}
          </Link>
          <Pill phase={c.phase} />
        </div>
        <p className="why">{why(c)}</p>
      </div>
      <div className="q">
        {queuesOf(c).map((q) => (
          <div key={q.name} style={{ display: 'contents' }}>
            <span className="mono clip" title={q.name}>
              {q.name}
            </span>
            <Marks nodes={q.nodes} small />
          </div>
        ))}
      </div>
      <div className="k">
        <b>{busy}</b> busy
        {c.waiting && (
          <>
            , <b>{c.waiting.total}</b> wait
          </>
        )}
        <br />
        {c.phase === 'paused' ? (
          <>
            paused{' '}
            <b>
              <Ago at={c.since} />
            </b>{' '}
            ago
          </>
        ) : c.lease.ends_at ? (
          <>
            ends in{' '}
            <b>
              <Until at={c.lease.ends_at} />
            </b>
          </>
        ) : (
          'no end'
        )}
      </div>
      <div className="k right num">
        {cost && (
          <b>
            {cost.number} {cost.currency}
          </b>
        )}
        {perHour && (
          <>
            <br />
            {perHour.number} /h
          </>
        )}
      </div>
    </article>
  )
}
