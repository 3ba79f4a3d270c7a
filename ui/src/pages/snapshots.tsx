// Snapshots of a project: copies of what clusters held.
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { useState } from 'react'

import { answer, api, type Schemas } from '../api'
import { may, projectsQuery, snapshotsQuery } from '../data'
import { Ask } from '../parts/ask'
import { Loaded, Panel } from '../parts/panel'
import { Pill } from '../parts/state'
import { Table } from '../parts/table'
import { Ago } from '../parts/time'
import { useTitle } from '../parts/title'
import { bytes } from '../words'

const route = getRouteApi('/projects/$project/snapshots')

type Snapshot = Schemas['Snapshot']

export function Snapshots() {
  const { project } = route.useParams()
  useTitle(`Snapshots of ${project}`)
  const owns = may(useQuery(projectsQuery).data, project, 'own')
  const [deleting, setDeleting] = useState<Snapshot>()
  return (
    <>
      <div className="head">
        <h1>Snapshots of {project}</h1>
      </div>
      <Panel title="Snapshots">
        <Loaded query={useQuery(snapshotsQuery)}>
          {(all) => (
            <Table
              label="Snapshots"
              rows={all.filter((s) => s.project === project)}
              of={(s) => s.id}
              none="None. A cluster’s page takes one."
              columns={[
                ['Name', (s) => s.name],
                ['Of', (s) => s.cluster],
                ['Phase', (s) => <Pill phase={s.phase} />],
                ['Size', (s) => (s.bytes ? bytes(s.bytes) : s.copied ? `${bytes(s.copied)} so far` : ''), 'right'],
                ['Age', (s) => <Ago at={s.created_at} />],
                ['By', (s) => s.created_by],
                ['', (s) => s.reason, 'wrap'],
                [
                  '',
                  (s) =>
                    owns && (
                      <span className="line end">
                        <button type="button" className="btn quiet small" onClick={() => setDeleting(s)}>
                          Delete
                        </button>
                      </span>
                    ),
                ],
              ]}
            />
          )}
        </Loaded>
      </Panel>
      {deleting && <Delete s={deleting} onClose={() => setDeleting(undefined)} />}
    </>
  )
}

function Delete({ s, onClose }: { s: Snapshot; onClose: () => void }) {
  const queries = useQueryClient()
  return (
    <Ask
      title={`Delete ${s.name}`}
      act="Delete"
      bad
      command={`muster snapshots delete ${s.project}/${s.name}`}
      onAct={async () => {
        await answer(api.DELETE('/v1/snapshots/{snapshot}', { params: { path: { snapshot: s.id } } }))
        await queries.invalidateQueries({ queryKey: snapshotsQuery.queryKey })
      }}
      onClose={onClose}
    >
      <p className="dim">
        {s.bytes ? `${bytes(s.bytes)} of files` : 'Its files'} are lost. Clusters that were made from it stay.
      </p>
    </Ask>
  )
}
