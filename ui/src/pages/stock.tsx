// What a site has for its tenants: images, classes of machines, people and projects.
import { queryOptions, useQuery } from '@tanstack/react-query'

import { api, whole } from '../api'
import { classesQuery, imagesQuery, projectsQuery, siteQuery } from '../data'
import { Command, Loaded, Panel } from '../parts/panel'
import { Table } from '../parts/table'
import { Ago } from '../parts/time'
import { useTitle } from '../parts/title'
import { bytes } from '../words'

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

export function People() {
  useTitle('People and projects')
  return (
    <>
      <div className="head">
        <h1>People and projects</h1>
      </div>
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
