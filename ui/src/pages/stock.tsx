// What a site has for its tenants: images, classes of machines, people and projects.
import { queryOptions, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'

import { answer, api, whole } from '../api'
import { classesQuery, imagesQuery, operates, projectsQuery, siteQuery } from '../data'
import { Ask } from '../parts/ask'
import { Clusters } from '../parts/clusters'
import { Text } from '../parts/fields'
import { Icon } from '../parts/icon'
import { Command, Loaded, Panel } from '../parts/panel'
import { Table } from '../parts/table'
import { Ago } from '../parts/time'
import { useTitle } from '../parts/title'
import { bytes, quoted } from '../words'

const peopleQuery = queryOptions({
  queryKey: ['people'],
  queryFn: () => whole((page) => api.GET('/v1/people', { params: { query: page } })),
  staleTime: 0,
})

export function Stock() {
  useTitle('Images and classes')
  const operator = useQuery(siteQuery).data?.operator
  return (
    <>
      <div className="head">
        <h1>Images and classes</h1>
      </div>
      <div className="stack">
        <Panel title="Images" more={operator && <Command text="muster images import FOLDER" />}>
          <Loaded query={useQuery(imagesQuery)}>
            {(all) => (
              <Table
                label="Images"
                rows={all}
                of={(i) => i.name + i.digest}
                columns={[
                  ['Name', (i) => i.name],
                  ['Digest', (i) => i.digest.replace('sha256:', '').slice(0, 12), 'mono'],
                  ['What', (i) => i.summary, 'wrap'],
                  ['Drivers', (i) => i.drivers?.join(', ')],
                  ['Size', (i) => bytes(i.size), 'right'],
                  ['Age', (i) => <Ago at={i.created} />],
                  ['Used by', (i) => <Clusters all={i.used_by.map(placed)} />, 'wrap'],
                ]}
              />
            )}
          </Loaded>
        </Panel>
        <Panel title="Classes of machines">
          <Loaded query={useQuery(classesQuery)}>
            {(all) => (
              <Table
                label="Classes"
                rows={all}
                of={(c) => c.name}
                columns={[
                  ['Name', (c) => c.name],
                  ['Machines', (c) => c.machines, 'right'],
                  ['Free', (c) => c.free, 'right'],
                  ['Price', (c) => c.price],
                  ['Default of', (c) => c.default],
                  ['Which', (c) => c.select.join(', '), 'wrap'],
                ]}
              />
            )}
          </Loaded>
        </Panel>
      </div>
    </>
  )
}

/** placed reads PROJECT/CLUSTER. */
function placed(of: string) {
  const [project, cluster = ''] = of.split('/')
  return { project, cluster, label: of }
}

/** NewProject makes one, with somebody who says who else is in it. */
function NewProject({ onClose }: { onClose: () => void }) {
  const queries = useQueryClient()
  const [name, setName] = useState('')
  const [owner, setOwner] = useState('')
  const [recorded, setRecorded] = useState(false)
  return (
    <Ask
      title="New project"
      act="Make it"
      ready={name !== '' && owner !== ''}
      command={`muster projects add ${quoted(name || 'NAME')} --owner ${quoted(owner || 'PERSON')}${recorded ? ' --recorded' : ''}`}
      onAct={async () => {
        await answer(api.POST('/v1/projects', { body: { name, owner, recorded } }))
        await queries.invalidateQueries({ queryKey: projectsQuery.queryKey })
      }}
      onClose={onClose}
    >
      <Text label="Name" value={name} onChange={setName} required />
      <Text label="Owner" value={owner} onChange={setOwner} hint="The person who says who else is in it." required />
      <label className="line">
        <input type="checkbox" checked={recorded} onChange={(e) => setRecorded(e.target.checked)} />
        Record terminals in its clusters
      </label>
    </Ask>
  )
}

export function People() {
  useTitle('People and projects')
  const acts = operates(useQuery(siteQuery).data)
  const [making, setMaking] = useState(false)
  return (
    <>
      <div className="head">
        <h1>People and projects</h1>
        {acts && (
          <div className="actions">
            <button type="button" className="btn main" onClick={() => setMaking(true)}>
              <Icon name="plus" /> New project
            </button>
          </div>
        )}
      </div>
      {making && <NewProject onClose={() => setMaking(false)} />}
      <div className="stack">
        <Panel title="People" more={<Command text="muster users add NAME" />}>
          <Loaded query={useQuery(peopleQuery)}>
            {(all) => (
              <Table
                label="People"
                rows={all}
                of={(p) => p.name}
                columns={[
                  ['Name', (p) => p.name],
                  ['Full name', (p) => p.full_name],
                  ['', (p) => (p.disabled ? 'locked out' : p.operator ? 'operator' : '')],
                  ['Logs in as', (p) => p.subject, 'wrap'],
                  ['Since', (p) => <Ago at={p.created_at} />],
                ]}
              />
            )}
          </Loaded>
        </Panel>
        <Panel title="Projects" more={<Command text="muster projects add NAME --owner PERSON" />}>
          <Loaded query={useQuery(projectsQuery)}>
            {(all) => (
              <Table
                label="Projects"
                rows={all}
                of={(p) => p.name}
                columns={[
                  ['Name', (p) => p.name],
                  ['Clusters', (p) => p.clusters, 'right'],
                  ['Members', (p) => p.members, 'right'],
                  ['Terminals', (p) => (p.recorded ? 'recorded' : '')],
                  ['Since', (p) => <Ago at={p.created_at} />],
                ]}
              />
            )}
          </Loaded>
        </Panel>
      </div>
    </>
  )
}
