// Who is in a project, and who is asked to join it.
import { queryOptions, useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'

import { answer, api, type Schemas, whole } from '../api'
import { may, projectsQuery, siteQuery } from '../data'
import { Ask } from '../parts/ask'
import { Pick, Text } from '../parts/fields'
import { Icon } from '../parts/icon'
import { Loaded, Panel } from '../parts/panel'
import { Table } from '../parts/table'
import { Ago } from '../parts/time'
import { useTitle } from '../parts/title'
import { quoted } from '../words'

const route = getRouteApi('/projects/$project/members')

type Member = Schemas['Member']

const membersQuery = (project: string) =>
  queryOptions({
    queryKey: ['members', project],
    queryFn: () => whole((page) => api.GET('/v1/projects/{project}/members', { params: { path: { project }, query: page } })),
    staleTime: 0,
  })

const roles = [
  ['viewer', 'viewer: looks'],
  ['member', 'member: has and uses clusters'],
  ['owner', 'owner: says who is in the project, too'],
] as const

export function Members() {
  const { project } = route.useParams()
  useTitle(`Members of ${project}`)
  const governs = may(useQuery(projectsQuery).data, project, 'govern')
  const site = useQuery(siteQuery).data
  const self = site?.identity
  const keeps = site?.scope === 'all' && !site.only
  const [asked, setAsked] = useState<{ act: 'add' } | { act: 'role' | 'remove'; of: Member }>()
  const close = () => setAsked(undefined)
  return (
    <>
      <div className="head">
        <h1>Members of {project}</h1>
        {governs && (
          <div className="actions">
            <button type="button" className="btn main" onClick={() => setAsked({ act: 'add' })}>
              <Icon name="plus" /> Invite somebody
            </button>
          </div>
        )}
      </div>
      <Panel title="Members">
        <Loaded query={useQuery(membersQuery(project))}>
          {(all) => (
            <Table
              label="Members"
              rows={all}
              of={(m) => m.person}
              columns={[
                ['Who', (m) => m.person],
                ['Role', (m) => m.role],
                ['', (m) => (m.disabled ? 'locked out' : m.invited_by ? `asked by ${m.invited_by}, not here yet` : '')],
                ['Since', (m) => <Ago at={m.since} />],
                [
                  '',
                  (m) =>
                    (governs || (keeps && m.person === self)) && (
                      <span className="line end">
                        {governs && (
                          <button type="button" className="btn quiet small" onClick={() => setAsked({ act: 'role', of: m })}>
                            Role
                          </button>
                        )}
                        <button type="button" className="btn quiet small" onClick={() => setAsked({ act: 'remove', of: m })}>
                          {m.person === self ? 'Leave' : 'Remove'}
                        </button>
                      </span>
                    ),
                ],
              ]}
            />
          )}
        </Loaded>
      </Panel>
      {asked?.act === 'add' && <Role project={project} onClose={close} />}
      {asked?.act === 'role' && <Role project={project} of={asked.of} onClose={close} />}
      {asked?.act === 'remove' && <Remove project={project} of={asked.of} self={asked.of.person === self} onClose={close} />}
    </>
  )
}

function Role({ project, of, onClose }: { project: string; of?: Member; onClose: () => void }) {
  const queries = useQueryClient()
  const [person, setPerson] = useState(of?.person ?? '')
  const [role, setRole] = useState<Member['role']>(of?.role ?? 'member')
  return (
    <Ask
      title={of ? `Role of ${of.person}` : `Invite somebody to ${project}`}
      act={of ? 'Change role' : 'Invite'}
      ready={person !== ''}
      command={`muster projects grant ${project} ${person ? quoted(person) : 'NAME'} ${role}`}
      onAct={async () => {
        await answer(
          api.PUT('/v1/projects/{project}/members/{person}', { params: { path: { project, person } }, body: { role } }),
        )
        await queries.invalidateQueries({ queryKey: ['members'] })
      }}
      onClose={onClose}
    >
      {!of && <Text label="Name" value={person} onChange={setPerson} hint="As they are called at this site." required />}
      <Pick label="Role" value={role} values={roles} onChange={(v) => setRole(v as Member['role'])} />
    </Ask>
  )
}

function Remove({ project, of, self, onClose }: { project: string; of: Member; self: boolean; onClose: () => void }) {
  const queries = useQueryClient()
  const navigate = useNavigate()
  return (
    <Ask
      title={self ? `Leave ${project}` : `Remove ${of.person} from ${project}`}
      act={self ? 'Leave' : 'Remove'}
      bad
      command={self ? `muster projects leave ${project}` : `muster projects revoke ${project} ${of.person}`}
      onAct={async () => {
        await answer(api.DELETE('/v1/projects/{project}/members/{person}', { params: { path: { project, person: of.person } } }))
        await queries.invalidateQueries({ queryKey: projectsQuery.queryKey })
        await queries.invalidateQueries({ queryKey: siteQuery.queryKey })
        if (self) await navigate({ to: '/' })
        else await queries.invalidateQueries({ queryKey: ['members'] })
      }}
      onClose={onClose}
    >
      <p className="dim">
        {self ? 'Your' : 'Their'} sessions end, and {self ? 'your' : 'their'} accounts on its clusters are locked. Jobs go on;
        clusters and files stay the project’s.
      </p>
    </Ask>
  )
}
