// Find or do: every place and every act, by typing a part of its name.
import { Autocomplete } from '@base-ui/react/autocomplete'
import { Dialog } from '@base-ui/react/dialog'
import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useMemo } from 'react'

import { clustersQuery, may, projectsQuery, siteQuery } from '../data'
import { Icon, type IconName } from '../parts/icon'
import { ofAll, ofProject, ofSite } from './places'
import type { Scheme } from './scheme'

type Entry = { value: string; label: string; beside?: string; icon: IconName; act: () => void }
type Group = { value: string; items: Entry[] }

type Props = {
  open: boolean
  onOpenChange: (open: boolean) => void
  project: string | undefined
  chooseScheme: (s: Scheme) => void
  signOut: () => void
  showKeys: () => void
}

export function Palette({ open, onOpenChange, project, chooseScheme, signOut, showKeys }: Props) {
  const navigate = useNavigate()
  const clusters = useQuery(clustersQuery).data
  const projects = useQuery(projectsQuery).data
  const site = useQuery(siteQuery).data
  const groups = useMemo<Group[]>(() => {
    const places: Entry[] = []
    for (const c of clusters ?? [])
      places.push({
        value: `cluster ${c.id}`,
        label: c.name,
        beside: `${c.project}, ${c.phase}`,
        icon: 'clusters',
        act: () => void navigate({ to: '/projects/$project/clusters/$cluster', params: { project: c.project, cluster: c.name } }),
      })
    for (const p of projects ?? [])
      if (p.permissions.includes('see'))
        places.push({
          value: `project ${p.name}`,
          label: p.name,
          beside: p.role ?? 'project',
          icon: 'home',
          act: () => void navigate({ to: '/projects/$project', params: { project: p.name } }),
        })
    if (project)
      for (const [label, icon, to] of ofProject)
        places.push({ value: to, label, beside: project, icon, act: () => void navigate({ to, params: { project } }) })
    for (const [label, icon, to] of [...ofAll, ...(site?.operator ? ofSite : [])])
      places.push({ value: to, label, icon, act: () => void navigate({ to }) })
    const acts: Entry[] = [
      ...(project && may(projects, project, 'own')
        ? [
            {
              value: 'new cluster',
              label: 'New cluster',
              beside: project,
              icon: 'plus' as const,
              act: () => void navigate({ to: '/projects/$project/new', params: { project } }),
            },
          ]
        : []),
      { value: 'light', label: 'Light colours', icon: 'info', act: () => chooseScheme('light') },
      { value: 'dark', label: 'Dark colours', icon: 'info', act: () => chooseScheme('dark') },
      { value: 'system', label: "The system's colours", icon: 'info', act: () => chooseScheme('') },
      { value: 'keys', label: 'Keys', beside: '?', icon: 'key', act: showKeys },
      { value: 'sign out', label: 'Sign out', icon: 'cross', act: signOut },
    ]
    return [
      { value: 'Go to', items: places },
      { value: 'Do', items: acts },
    ]
  }, [clusters, projects, site, project, navigate, chooseScheme, signOut, showKeys])
  return (
    <Dialog.Root open={open} onOpenChange={onOpenChange}>
      <Dialog.Portal>
        <Dialog.Backdrop className="backdrop" />
        <Dialog.Popup className="pal" aria-label="Find or do">
          <Autocomplete.Root
            open
            inline
            items={groups}
            autoHighlight="always"
            keepHighlight
            itemToStringValue={(e: Entry) => e.label}
          >
            <div className="q">
              <Icon name="find" />
              <Autocomplete.Input aria-label="Find or do" placeholder="A cluster, a project, an action" />
            </div>
            <Autocomplete.Empty>
              <p className="none">Nothing matches.</p>
            </Autocomplete.Empty>
            <Autocomplete.List>
              {(group: Group) => (
                <Autocomplete.Group key={group.value} items={group.items}>
                  <Autocomplete.GroupLabel className="group">{group.value}</Autocomplete.GroupLabel>
                  <Autocomplete.Collection>
                    {(e: Entry) => (
                      <Autocomplete.Item
                        key={e.value}
                        value={e}
                        className="item"
                        onClick={() => {
                          onOpenChange(false)
                          e.act()
                        }}
                      >
                        <Icon name={e.icon} />
                        <span className="grow clip">{e.label}</span>
                        <span className="faint">{e.beside}</span>
                      </Autocomplete.Item>
                    )}
                  </Autocomplete.Collection>
                </Autocomplete.Group>
              )}
            </Autocomplete.List>
          </Autocomplete.Root>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  )
}
