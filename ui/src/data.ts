// What pages ask the API for. A query's key begins with what it is of; see concerns in live.ts.
import { queryOptions } from '@tanstack/react-query'

import { answer, api, type Schemas, whole } from './api'

export const siteQuery = queryOptions({
  queryKey: ['site'],
  queryFn: () => answer(api.GET('/v1/site')),
  staleTime: 60_000,
})

/** operates says whether somebody may change what is the site's. */
export const operates = (site: Schemas['Site'] | undefined) => site?.operator === true && site.scope === 'all' && !site.only

export const projectsQuery = queryOptions({
  queryKey: ['projects'],
  queryFn: () => whole((page) => api.GET('/v1/projects', { params: { query: page } })),
})

/** may says whether something may be done in a project. */
export const may = (
  projects: Schemas['Project'][] | undefined,
  project: string,
  action: Schemas['Project']['permissions'][number],
) => projects?.find((p) => p.name === project)?.permissions.includes(action) ?? false

export const clustersQuery = queryOptions({
  queryKey: ['clusters'],
  queryFn: () => whole((page) => api.GET('/v1/clusters', { params: { query: page } })),
})

/** getCluster asks for a cluster by its ID, or by PROJECT/NAME. */
export const getCluster = (cluster: string) => api.GET('/v1/clusters/{cluster}', { params: { path: { cluster } } })

/** clusterQuery is of a cluster by PROJECT/NAME. */
export const clusterQuery = (ref: string) => queryOptions({ queryKey: ['cluster', ref], queryFn: () => answer(getCluster(ref)) })

export const imagesQuery = queryOptions({
  queryKey: ['images'],
  queryFn: () => whole((page) => api.GET('/v1/images', { params: { query: page } })),
  staleTime: 0,
})
export const classesQuery = queryOptions({
  queryKey: ['classes'],
  queryFn: () => whole((page) => api.GET('/v1/classes', { params: { query: page } })),
  staleTime: 0,
})
export const machinesQuery = queryOptions({
  queryKey: ['machines'],
  queryFn: () => whole((page) => api.GET('/v1/machines', { params: { query: page } })),
})

export const networksQuery = queryOptions({
  queryKey: ['networks'],
  queryFn: () => whole((page) => api.GET('/v1/networks', { params: { query: page } })),
  staleTime: 0,
})

export const snapshotsQuery = queryOptions({
  queryKey: ['snapshots'],
  queryFn: () => whole((page) => api.GET('/v1/snapshots', { params: { query: page } })),
  staleTime: 0,
})

export const quotaQuery = (project: string) =>
  queryOptions({
    queryKey: ['quota', project],
    queryFn: () => answer(api.GET('/v1/projects/{project}/quota', { params: { path: { project } } })),
  })

/** jobsQuery is of the jobs of a cluster, by PROJECT/NAME, that have not ended. */
export const jobsQuery = (ref: string) =>
  queryOptions({
    queryKey: ['jobs', ref],
    queryFn: () => {
      const [project = '', cluster = ''] = ref.split('/')
      return answer(api.GET('/v1/jobs/current', { params: { query: { project, cluster, limit: 200 } } }))
    },
  })

/** filesQuery is of a directory of a cluster, by PROJECT/NAME, as the caller sees it; '': their own. */
export const filesQuery = (ref: string, path: string) =>
  queryOptions({
    queryKey: ['files', ref, path],
    queryFn: ({ signal }) =>
      answer(api.GET('/v1/clusters/{cluster}/files', { params: { path: { cluster: ref }, query: { path } }, signal })),
    staleTime: 0,
  })

/** entriesShown are which entries of the audit log may be of interest. */
export const entriesShown = ['acts', 'refused', 'all'] as const

/** endings are the states in which a job may have ended. */
export const endings = [
  'completed',
  'failed',
  'timed-out',
  'out-of-memory',
  'cancelled',
  'node-failed',
  'preempted',
  'requeued',
] as const satisfies Schemas['Job']['state'][]

export type Ending = (typeof endings)[number]
