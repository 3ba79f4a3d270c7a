// What every page stands in: navigation, where one is, whether it is live, and the way to everything else.
import { Dialog } from '@base-ui/react/dialog'
import { Menu } from '@base-ui/react/menu'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, type LinkProps, Outlet, useLocation, useNavigate, useParams } from '@tanstack/react-router'
import { type ReactNode, useCallback, useEffect, useMemo, useRef, useState } from 'react'

import { answer, api, clockSkew, NoAnswer, Refused, type Schemas } from '../api'
import { clustersQuery, may, projectsQuery, siteQuery } from '../data'
import { useLive, useRefresh } from '../live'
import { SignIn } from '../pages/sign-in'
import { Icon, type IconName, Logo } from '../parts/icon'
import { Wrong } from '../parts/panel'
import { useNow } from '../parts/time'
import { useTitle } from '../parts/title'
import { arrive } from '../provider'
import { span } from '../words'
import { type Key, Keys, useKeys } from './keys'
import { ofAll, ofProject, ofSite, titleOf } from './places'
import { chooseScheme } from './scheme'

/** Shell is for who is signed in. Everybody else signs in here: on a page of its own, or over what they were doing. */
export function Shell() {
  const site = useQuery(siteQuery)
  const { signedOut } = useLive()
  useEffect(() => {
    const back = site.data && arrive() // from the provider, when somebody was signed in already
    if (back) history.replaceState(null, '', back.page)
  }, [site.data])
  const out = signedOut || (site.error instanceof Refused && site.error.problem.status === 401)
  if (!site.data) return out ? <Door /> : site.error ? <Wrong why={site.error} /> : null
  return (
    <>
      <Inside key={site.data.identity} site={site.data} />
      {out && (
        <Dialog.Root open>
          <Dialog.Portal>
            <Dialog.Backdrop className="backdrop" />
            <Dialog.Popup className="dialog over-page" aria-label="Sign in again">
              <SignIn over />
            </Dialog.Popup>
          </Dialog.Portal>
        </Dialog.Root>
      )}
    </>
  )
}

function Door() {
  useTitle('Sign in')
  return (
    <main id="page">
      <SignIn />
    </main>
  )
}

function Inside({ site }: { site: Schemas['Site'] }) {
  const path = useLocation({ select: (l) => l.pathname })
  const [menu, setMenu] = useState(false)
  useEffect(() => setMenu(false), [path])
  const params = useParams({ strict: false }) as { project?: string; cluster?: string }
  const title = titleOf(path)
  const projects = useQuery(projectsQuery).data?.filter((p) => p.permissions.includes('see')) ?? []
  const clusters = useQuery(clustersQuery).data
  const last = useRef(params.project) // pages of no project are of the last one
  if (params.project) last.current = params.project
  const project = last.current ?? site.project ?? projects[0]?.name
  const [wrong, setWrong] = useState<Error>()
  const [finding, setFinding] = useState(false)
  const [Palette, setPalette] = useState<typeof import('./palette').Palette>()
  useEffect(() => {
    // It comes after the first screen, and again when it is asked for, if it did not come.
    import('./palette').then(
      (loaded) => {
        setWrong(undefined)
        setPalette(() => loaded.Palette)
      },
      () => {
        if (finding) setWrong(new NoAnswer())
        setFinding(false)
      },
    )
  }, [finding])
  const [showing, setShowing] = useState(false)
  const navigate = useNavigate()
  const queries = useQueryClient()
  const refresh = useRefresh()
  const signOut = useCallback(async () => {
    try {
      await answer(api.DELETE('/v1/console/session'))
    } catch (why) {
      if (!(why instanceof Refused && why.problem.status === 401)) {
        setWrong(why as Error)
        return
      }
    }
    queries.clear()
    location.assign('/')
  }, [queries])
  const leave = useCallback(() => void signOut(), [signOut])
  const showKeys = useCallback(() => setShowing(true), [])
  const own = project !== undefined && may(projects, project, 'own')
  const keys = useMemo<Key[]>(() => {
    const to = (path: '/projects/$project' | '/projects/$project/clusters' | '/projects/$project/new') => () => {
      if (project) void navigate({ to: path, params: { project } })
    }
    return [
      { keys: ['Ctrl k'], words: 'Find or do', act: () => setFinding(true) },
      { keys: ['g', 'h'], words: 'Go home', act: to('/projects/$project') },
      { keys: ['g', 'c'], words: 'Go to the clusters', act: to('/projects/$project/clusters') },
      ...(own ? [{ keys: ['c'], words: 'New cluster', act: to('/projects/$project/new') }] : []),
      { keys: ['r'], words: 'Ask again for what is shown', act: refresh },
      { keys: ['?'], words: 'Keys', act: showKeys },
    ]
  }, [project, own, navigate, refresh, showKeys])
  useKeys(keys)
  const role = projects.find((p) => p.name === project)?.role
  return (
    <>
      <a className="skip" href="#page">
        To the page
      </a>
      <div className="app">
        <aside className={menu ? 'side open' : 'side'} aria-label="Navigation">
          <div className="line">
            <Link className="brand grow" to="/">
              <Logo />
              Muster
              <span className="site">{site.site}</span>
            </Link>
            <button type="button" className="btn menu-button" aria-expanded={menu} onClick={() => setMenu(!menu)}>
              Menu
            </button>
          </div>
          {project && <Switch project={project} role={role} projects={projects} />}
          {project && (
            <nav aria-label="Project">
              {ofProject.map(([label, icon, to]) => (
                <Place key={to} to={to} params={{ project }} icon={icon} exact={label === 'Home'}>
                  {label}
                  {label === 'Clusters' && <span className="count">{clusters?.filter((c) => c.project === project).length}</span>}
                </Place>
              ))}
              {ofAll.map(([label, icon, to]) => (
                <Place key={to} to={to} params={{}} icon={icon}>
                  {label}
                </Place>
              ))}
            </nav>
          )}
          {site.operator && (
            <nav aria-label="Site">
              <h3>Site</h3>
              {ofSite.map(([label, icon, to]) => (
                <Place key={to} to={to} params={{}} icon={icon}>
                  {label}
                </Place>
              ))}
            </nav>
          )}
          <div className="who">
            <span className="face" aria-hidden="true">
              {site.identity.slice(0, 2).toUpperCase()}
            </span>
            <span className="clip grow">{site.identity}</span>
            <button className="btn quiet small icon" aria-label="Sign out" title="Sign out" onClick={leave}>
              <Icon name="cross" />
            </button>
          </div>
        </aside>
        <header className="top">
          <nav className="crumbs" aria-label="Where you are">
            <Link to="/">{site.site}</Link>
            {params.project && (
              <>
                <span aria-hidden="true">/</span>
                <Link to="/projects/$project" params={{ project: params.project }} activeOptions={{ exact: true }}>
                  {params.project}
                </Link>
              </>
            )}
            {(title ?? params.cluster) && (
              <>
                <span aria-hidden="true">/</span>
                <span aria-current="page">{title ?? params.cluster}</span>
              </>
            )}
          </nav>
          <span className="grow" />
          <Liveness />
          <button className="find" onClick={() => setFinding(true)}>
            <Icon name="find" />
            <span>Find or do</span>
            <kbd>Ctrl</kbd>
            <kbd>K</kbd>
          </button>
        </header>
        <main className="page" id="page" tabIndex={-1}>
          {wrong && <Wrong why={wrong} />}
          <Outlet />
        </main>
      </div>
      {Palette && (
        <Palette
          open={finding}
          onOpenChange={setFinding}
          project={project}
          chooseScheme={chooseScheme}
          signOut={leave}
          showKeys={showKeys}
        />
      )}
      <Keys open={showing} onOpenChange={setShowing} />
    </>
  )
}

type Where = Required<Pick<LinkProps, 'to' | 'params'>>

function Place({ to, params, icon, exact, children }: Where & { icon: IconName; exact?: boolean; children: ReactNode }) {
  return (
    <Link to={to} params={params} activeOptions={{ exact: exact ?? false }} activeProps={{ 'aria-current': 'page' }}>
      <Icon name={icon} />
      {children}
    </Link>
  )
}

function Switch({ project, role, projects }: { project: string; role: string | undefined; projects: Schemas['Project'][] }) {
  const navigate = useNavigate()
  return (
    <Menu.Root>
      <Menu.Trigger className="switch">
        <span className="dot w w1" />
        <span className="clip">
          <b>{project}</b> <span className="faint">{role}</span>
        </span>
        <Icon name="switch" />
      </Menu.Trigger>
      <Menu.Portal>
        <Menu.Positioner sideOffset={4} align="start">
          <Menu.Popup className="menu">
            {projects.map((p) => (
              <Menu.Item
                key={p.name}
                className="item"
                onClick={() => void navigate({ to: '/projects/$project', params: { project: p.name } })}
              >
                <span className="grow">{p.name}</span>
                <span className="faint">{p.role ?? 'operator'}</span>
              </Menu.Item>
            ))}
          </Menu.Popup>
        </Menu.Positioner>
      </Menu.Portal>
    </Menu.Root>
  )
}

/** Liveness says how old a page is that is cut off. */
function Liveness() {
  const { live, since, again } = useLive()
  const now = useNow() - clockSkew() // those times are the browser's
  if (live === undefined) return null
  return (
    <>
      <span className="sr" role="status">
        {live ? 'Live' : 'Not connected'}
      </span>
      <span className={live ? 'live' : 'live stale'} aria-hidden="true">
        {live ? 'Live' : `${span((now - since) / 1000)} old, tries again in ${span((again - now) / 1000)}`}
      </span>
    </>
  )
}
