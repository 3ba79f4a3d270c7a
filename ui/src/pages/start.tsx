// The first page: one's project, or the site.
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Navigate } from '@tanstack/react-router'
import { useState } from 'react'

import { answer, api, type Schemas } from '../api'
import { projectsQuery, siteQuery } from '../data'
import { Loaded, Wrong } from '../parts/panel'
import { useTitle } from '../parts/title'

export function Start() {
  const site = useQuery(siteQuery).data
  const projects = useQuery(projectsQuery)
  useTitle('Start')
  return (
    <Loaded query={projects}>
      {(all) => {
        const project = site?.project ?? all.find((p) => p.permissions.includes('see'))?.name
        if (project) return <Navigate to="/projects/$project" params={{ project }} replace />
        if (site?.operator) return <Navigate to="/site" replace />
        return (
          <div className="blank">
            <h1>You are in no project yet</h1>
            {all.every((p) => !p.invited) && <p>An operator of the site, or a project’s owner, can add you.</p>}
            <Invitations projects={all} />
          </div>
        )
      }}
    </Loaded>
  )
}

/** Invitations are the projects that somebody is asked to join. */
export function Invitations({ projects }: { projects: Schemas['Project'][] }) {
  const queries = useQueryClient()
  const [wrong, setWrong] = useState<Error>()
  const join = async (project: string) => {
    try {
      await answer(api.POST('/v1/projects/{project}/join', { params: { path: { project } } }))
      await queries.invalidateQueries()
    } catch (why) {
      setWrong(why as Error)
    }
  }
  return (
    <>
      {projects
        .filter((p) => p.invited)
        .map((p) => (
          <div className="note go" key={p.name}>
            <span className="grow">
              {p.invited_by} invites you to <b>{p.name}</b> as {p.invited}.
            </span>
            <button type="button" className="btn small" onClick={() => void join(p.name)}>
              Join
            </button>
          </div>
        ))}
      {wrong && <Wrong why={wrong} />}
    </>
  )
}
