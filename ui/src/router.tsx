// The address is a page's whole state.
import { createRootRoute, createRoute, createRouter, lazyRouteComponent, Link } from '@tanstack/react-router'

import { endings, entriesShown } from './data'
import { Start } from './pages/start'
import { Wrong } from './parts/panel'
import { Shell } from './shell/shell'

const root = createRootRoute({
  component: Shell,
  notFoundComponent: () => (
    <div className="blank">
      <h1>There is no such page</h1>
      <Link className="btn" to="/">
        Home
      </Link>
    </div>
  ),
})

const at = <P extends string>(path: P) => ({ getParentRoute: () => root, path })

/** numbered is a number of an address between two bounds, or nothing. */
function numbered<K extends string>(key: K, search: Record<string, unknown>, least: number, most: number): { [k in K]?: number } {
  const n = Number(search[key])
  return Number.isInteger(n) && n >= least && n <= most ? ({ [key]: n } as { [k in K]?: number }) : {}
}

/** texts are those of an address that say something, of the names given. */
const texts = <K extends string>(search: Record<string, unknown>, ...keys: K[]) =>
  Object.fromEntries(keys.flatMap((k) => (typeof search[k] === 'string' && search[k] ? [[k, search[k]]] : []))) as {
    [k in K]?: string
  }

export const router = createRouter({
  routeTree: root.addChildren([
    createRoute({ ...at('/'), component: Start }),
    createRoute({ ...at('/sign-in'), component: Start }),
    createRoute({ ...at('/site'), component: lazyRouteComponent(() => import('./pages/site'), 'Site') }),
    createRoute({ ...at('/projects/$project'), component: lazyRouteComponent(() => import('./pages/home'), 'Home') }),
    createRoute({
      ...at('/projects/$project/clusters'),
      component: lazyRouteComponent(() => import('./pages/clusters'), 'Clusters'),
    }),
    createRoute({
      ...at('/projects/$project/jobs'),
      component: lazyRouteComponent(() => import('./pages/history'), 'History'),
      validateSearch: (search: Record<string, unknown>) => {
        const state = endings.find((s) => s === search['state'])
        return { ...texts(search, 'cluster', 'user'), ...(state && { state }) }
      },
    }),
    createRoute({
      ...at('/machines'),
      component: lazyRouteComponent(() => import('./pages/machines'), 'Machines'),
      validateSearch: (search: Record<string, unknown>) => texts(search, 'q'),
    }),
    createRoute({ ...at('/machines/$machine'), component: lazyRouteComponent(() => import('./pages/machine'), 'Machine') }),
    createRoute({
      ...at('/racks'),
      component: lazyRouteComponent(() => import('./pages/racks'), 'Racks'),
      validateSearch: (search: Record<string, unknown>) => texts(search, 'phase'),
    }),
    createRoute({ ...at('/networks'), component: lazyRouteComponent(() => import('./pages/networks'), 'Networks') }),
    createRoute({ ...at('/fabrics'), component: lazyRouteComponent(() => import('./pages/fabrics'), 'Fabrics') }),
    createRoute({ ...at('/fabrics/$fabric'), component: lazyRouteComponent(() => import('./pages/fabrics'), 'Fabric') }),
    createRoute({ ...at('/benchmarks'), component: lazyRouteComponent(() => import('./pages/benchmarks'), 'Benchmarks') }),
    createRoute({
      ...at('/benchmarks/$benchmark'),
      component: lazyRouteComponent(() => import('./pages/benchmarks'), 'Benchmark'),
    }),
    createRoute({ ...at('/stock'), component: lazyRouteComponent(() => import('./pages/stock'), 'Stock') }),
    createRoute({ ...at('/people'), component: lazyRouteComponent(() => import('./pages/stock'), 'People') }),
    createRoute({ ...at('/sessions'), component: lazyRouteComponent(() => import('./pages/log'), 'Sessions') }),
    createRoute({
      ...at('/audit'),
      component: lazyRouteComponent(() => import('./pages/log'), 'Audit'),
      validateSearch: (search: Record<string, unknown>) => {
        const show = entriesShown.find((s) => s === search['show'])
        return { ...texts(search, 'person', 'action', 'object'), ...(show && { show }) }
      },
    }),
    createRoute({ ...at('/access'), component: lazyRouteComponent(() => import('./pages/access'), 'Access') }),
    createRoute({
      ...at('/calendar'),
      component: lazyRouteComponent(() => import('./pages/calendar'), 'Calendar'),
      validateSearch: (search: Record<string, unknown>): { days?: number } => numbered('days', search, 1, 60),
    }),
    createRoute({
      ...at('/projects/$project/members'),
      component: lazyRouteComponent(() => import('./pages/members'), 'Members'),
    }),
    createRoute({
      ...at('/projects/$project/snapshots'),
      component: lazyRouteComponent(() => import('./pages/snapshots'), 'Snapshots'),
    }),
    createRoute({
      ...at('/projects/$project/usage'),
      component: lazyRouteComponent(() => import('./pages/usage'), 'Usage'),
      validateSearch: (search: Record<string, unknown>): { back?: number } => numbered('back', search, 1, 120),
    }),
    createRoute({
      ...at('/projects/$project/cost/$cluster'),
      component: lazyRouteComponent(() => import('./pages/usage'), 'Cost'),
    }),
    createRoute({
      ...at('/projects/$project/new'),
      component: lazyRouteComponent(() => import('./pages/new'), 'New'),
      validateSearch: (search: Record<string, unknown>) => texts(search, 'like'),
    }),
    createRoute({
      ...at('/projects/$project/clusters/$cluster/file'),
      component: lazyRouteComponent(() => import('./pages/new'), 'Change'),
    }),
    createRoute({
      ...at('/projects/$project/clusters/$cluster/terminal'),
      component: lazyRouteComponent(() => import('./pages/terminal'), 'Terminal'),
      validateSearch: (search: Record<string, unknown>) => texts(search, 'node', 'terminal'),
    }),
    createRoute({
      ...at('/projects/$project/clusters/$cluster/files'),
      component: lazyRouteComponent(() => import('./pages/files'), 'Files'),
      validateSearch: (search: Record<string, unknown>) => texts(search, 'path'),
    }),
    createRoute({
      ...at('/projects/$project/clusters/$cluster'),
      component: lazyRouteComponent(() => import('./pages/cluster'), 'Cluster'),
    }),
  ]),
  defaultPreload: 'intent',
  scrollRestoration: true,
  scrollToTopSelectors: ['#page'],
  defaultErrorComponent: ({ error }) => <Wrong why={error instanceof Error ? error : new Error(String(error))} />,
})

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
}
