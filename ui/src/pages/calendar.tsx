// What is free, held and reserved in the next days, class by class.
import { queryOptions, useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'

import { answer, api, type Schemas } from '../api'
import { Clusters } from '../parts/clusters'
import { Loaded, Panel } from '../parts/panel'
import { Table } from '../parts/table'
import { useTitle } from '../parts/title'
import { clock } from '../words'

const route = getRouteApi('/calendar')

const calendarQuery = (days: number) =>
  queryOptions({
    queryKey: ['calendar', days],
    queryFn: () => answer(api.GET('/v1/calendar', { params: { query: { to: `+${days}d` } } })),
    staleTime: 0,
  })

export function Calendar() {
  const { days = 7 } = route.useSearch()
  useTitle('Calendar')
  return (
    <>
      <div className="head">
        <div>
          <h1>Calendar</h1>
          <p className="dim">Machines of each class in the next {days} days</p>
        </div>
        <div className="actions">
          {[1, 7, 28].map((n) => (
            <Link className="btn" key={n} to="/calendar" search={{ days: n }} aria-current={n === days || undefined}>
              {n === 1 ? '1 day' : `${n} days`}
            </Link>
          ))}
        </div>
      </div>
      <Loaded query={useQuery(calendarQuery(days))}>
        {(c) => (
          <div className="stack">
            <div className="legend">
              {(['held', 'reserved', 'free'] as const).map((what) => (
                <span key={what}>
                  <i className={`cal-key ${what}`} /> {what}
                </span>
              ))}
            </div>
            {c.classes.map((k) => (
              <Panel key={k.name} title={k.name} beside={<span className="faint">{k.machines} in service</span>}>
                <Strip of={k} from={c.from} until={c.until} />
                <details className="in">
                  <summary>As a table</summary>
                  <Slots of={k} />
                </details>
              </Panel>
            ))}
          </div>
        )}
      </Loaded>
    </>
  )
}

/** Strip is a class over time: as wide as the time, as high as its machines. */
function Strip({ of, from, until }: { of: Schemas['ClassCalendar']; from: string; until: string }) {
  const begin = Date.parse(from)
  const whole = Math.max(1, Date.parse(until) - begin)
  const most = Math.max(1, ...of.slots.map((s) => s.free + s.held + s.reserved))
  const percent = (n: number) => `${(100 * n) / most}%`
  return (
    <div className="in">
      <div className="cal" role="img" aria-label={`${of.name}: the table below says the same`}>
        {of.slots.map((s) => (
          <div
            key={s.from}
            style={{ width: `${(100 * (Date.parse(s.until) - Date.parse(s.from))) / whole}%` }}
            title={`${clock(new Date(s.from), new Date())} to ${clock(new Date(s.until), new Date())}: ${s.free} free, ${s.held} held, ${s.reserved} reserved`}
          >
            <i className="free" style={{ height: percent(s.free) }} />
            <i className="reserved" style={{ height: percent(s.reserved) }} />
            <i className="held" style={{ height: percent(s.held) }} />
          </div>
        ))}
      </div>
      <div className="line faint cal-times">
        <span>{clock(new Date(from), new Date())}</span>
        <span className="grow" />
        <span>{clock(new Date(until), new Date())}</span>
      </div>
    </div>
  )
}

function Slots({ of }: { of: Schemas['ClassCalendar'] }) {
  const now = new Date()
  return (
    <Table
      label={of.name}
      rows={of.slots}
      of={(s) => s.from}
      columns={[
        ['From', (s) => clock(new Date(s.from), now)],
        ['Until', (s) => clock(new Date(s.until), now)],
        ['Free', (s) => s.free, 'right'],
        ['Held', (s) => s.held, 'right'],
        ['Reserved', (s) => s.reserved, 'right'],
        ['By', (s) => <Clusters all={s.by.map((b) => ({ ...b, said: b.machines }))} />, 'wrap'],
      ]}
    />
  )
}
