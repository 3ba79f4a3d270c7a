import { Link } from '@tanstack/react-router'
import { Fragment } from 'react'

/** Place is a cluster by its project and its name, with what is said of it; without a project there is nothing to see of it. */
type Place = { project?: string | undefined; cluster: string; label?: string; said?: string | number }

/** Clusters names clusters in a row; those that one may see lead there. */
export const Clusters = ({ all }: { all: Place[] }) =>
  all.map(({ project, cluster, label = cluster, said }, i) => (
    <Fragment key={`${project}/${cluster}/${i}`}>
      {i > 0 && ', '}
      {project ? (
        <Link to="/projects/$project/clusters/$cluster" params={{ project, cluster }}>
          {label}
        </Link>
      ) : (
        label
      )}
      {said !== undefined && ` ${said}`}
    </Fragment>
  ))
