// What the site had in the last day, one quantity a row.
import { queryOptions, useQuery } from '@tanstack/react-query'

import { answer, api, clockSkew } from '../api'
import { curvesOf } from '../day'
import { Loaded, Panel } from './panel'
import { Table } from './table'

const step = 5 // minutes

const dayQuery = queryOptions({
  queryKey: ['day'],
  queryFn: async () => (await answer(api.GET('/v1/status/day', { params: { query: { step } } }))).items,
  refetchInterval: 60_000, // each minute there is another
})

/** Day is what the site had in the last day. */
export function Day() {
  return (
    <Panel title="The last day">
      <Loaded query={useQuery(dayQuery)}>
        {(day) => (
          <Table
            label="The last day"
            rows={curvesOf(day, step, Date.now() + clockSkew())}
            of={(c) => c.words}
            none={day.length ? 'There was nothing.' : 'Nothing has been counted yet.'}
            columns={[
              ['What', (c) => c.words],
              [
                '24 hours until now',
                (c) => (
                  <svg
                    className="curve"
                    viewBox="0 0 1440 100"
                    preserveAspectRatio="none"
                    role="img"
                    aria-label={`between ${c.least} and ${c.most}`}
                  >
                    <path d={c.path} />
                  </svg>
                ),
              ],
              ['Now', (c) => c.now ?? '–', 'right'],
              ['Least', (c) => c.least, 'right'],
              ['Most', (c) => c.most, 'right'],
            ]}
          />
        )}
      </Loaded>
    </Panel>
  )
}
