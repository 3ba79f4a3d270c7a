// The pages that navigation and the palette lead to, and what stands at the top of them.
import type { IconName } from '../parts/icon'

type Page<To extends string> = readonly [label: string, icon: IconName, to: To]

/** ofProject are pages of one project. */
export const ofProject = [
  ['Home', 'home', '/projects/$project'],
  ['Clusters', 'clusters', '/projects/$project/clusters'],
  ['Jobs', 'jobs', '/projects/$project/jobs'],
  ['Usage and cost', 'bars', '/projects/$project/usage'],
  ['Snapshots', 'snapshots', '/projects/$project/snapshots'],
  ['Members', 'members', '/projects/$project/members'],
] as const satisfies Page<`/projects/$project${string}`>[]

/** ofAll are pages of all that somebody may see. */
export const ofAll = [
  ['Calendar', 'calendar', '/calendar'],
  ['Benchmarks', 'clock', '/benchmarks'],
  ['Images and classes', 'snapshots', '/stock'],
  ['Keys and tokens', 'key', '/access'],
  ['SSH sessions', 'terminal', '/sessions'],
  ['Audit log', 'audit', '/audit'],
] as const satisfies Page<string>[]

/** ofSite are those for operators. */
export const ofSite = [
  ['Site', 'site', '/site'],
  ['Machines', 'machine', '/machines'],
  ['Racks', 'rack', '/racks'],
  ['Networks', 'network', '/networks'],
  ['Fabrics', 'fabric', '/fabrics'],
  ['People and projects', 'members', '/people'],
] as const satisfies Page<string>[]

/** titleOf is the name of the page at an address, unless that is a cluster's, or a project's home. */
export function titleOf(path: string): string | undefined {
  const [, first, , page, ...more] = path.split('/')
  if (first !== 'projects') return [...ofAll, ...ofSite].find(([, , to]) => to === `/${first}`)?.[0]
  if (page === 'new') return 'New cluster'
  if (page === 'cost') return 'Cost of a cluster'
  return more.length === 0 ? ofProject.find(([, , to]) => to === `/projects/$project/${page}`)?.[0] : undefined
}
