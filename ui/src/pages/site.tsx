// The site, for its operators: what needs them, and what happens.
import { queryOptions, useQuery } from '@tanstack/react-query'
import { useState } from 'react'

import { answer, api, type Schemas } from '../api'
import { operates, siteQuery } from '../data'
import { Ask } from '../parts/ask'
import { Day } from '../parts/day'
import { Feed } from '../parts/feed'
import { Pick, Text } from '../parts/fields'
import { Icon } from '../parts/icon'
import { Facts, Loaded, Panel } from '../parts/panel'
import { useTitle } from '../parts/title'
import { Ago, Until } from '../parts/time'
import { quoted } from '../words'

const statusQuery = queryOptions({
  queryKey: ['status'],
  queryFn: () => answer(api.GET('/v1/status')),
  refetchInterval: 10_000, // alarms come and go without an event
})

/** terms are for how long an alarm may be acknowledged. */
const terms = [
  ['8h', '8 hours'],
  ['1d', 'a day'],
  ['3d', '3 days'],
  ['7d', 'a week'],
  ['30d', '30 days'],
] as const

type Alarm = Schemas['Alarm']

const say = (a: Alarm, body: Schemas['Acknowledge-alarmRequest']) =>
  answer(api.PUT('/v1/alarms/{alarm}/acknowledgement', { params: { path: { alarm: a.id } }, body }))

/** Acknowledge says that somebody knows of an alarm. */
function Acknowledge({ a, onClose }: { a: Alarm; onClose: () => void }) {
  const [note, setNote] = useState('')
  const [term, setTerm] = useState('1d')
  return (
    <Ask
      title="You know of this alarm"
      act="Acknowledge"
      command={`muster alarms acknowledge ${quoted(a.id)} --for ${term}${note ? ` --note ${quoted(note)}` : ''}`}
      onAct={() => say(a, { for: term, ...(note && { note }), ...(a.since && { since: a.since }) })}
      onClose={onClose}
    >
      <p>{a.text}</p>
      <Pick
        label="For"
        value={term}
        values={terms}
        onChange={setTerm}
        hint="Until then, or until the alarm tells of something newer."
      />
      <Text label="Note" value={note} onChange={(text) => setNote(text.slice(0, 500))} hint="For other operators." />
    </Ask>
  )
}

/** TakeBack says that nobody knows of an alarm any more. */
function TakeBack({ a, onClose }: { a: Alarm; onClose: () => void }) {
  return (
    <Ask
      title="Nobody knows of this alarm any more"
      act="Take back"
      command={`muster alarms acknowledge ${quoted(a.id)} --for 0s`}
      onAct={() => say(a, { for: '0s' })}
      onClose={onClose}
    >
      <p>{a.text}</p>
    </Ask>
  )
}

export function Site() {
  useTitle('Site')
  const acts = operates(useQuery(siteQuery).data)
  const [about, ask] = useState<Alarm>()
  const Dialog = about?.acknowledged ? TakeBack : Acknowledge
  return (
    <Loaded query={useQuery(statusQuery)}>
      {(s) => (
        <>
          {about && <Dialog a={about} onClose={() => ask(undefined)} />}
          <div className="head">
            <div>
              <h1>{s.site}</h1>
              <p className="dim">
                {s.controller}, {s.version}, for <Ago at={s.since} />
              </p>
            </div>
          </div>
          <div className="cols">
            <div className="stack">
              <Panel title="Alarms">
                {s.alarms.length === 0 ? (
                  <div className="in faint">Nothing needs you.</div>
                ) : (
                  <ul className="in attn">
                    {s.alarms.map((a) => (
                      <li key={a.id}>
                        <span className={a.acknowledged ? 'faint' : 't-warn'}>
                          <Icon name="alert" />
                        </span>
                        <div>
                          <b>{a.id}</b> {a.text}
                          {a.since && (
                            <>
                              {' '}
                              (<Ago at={a.since} /> ago)
                            </>
                          )}
                          {a.acknowledged && (
                            <p>
                              Known to {a.acknowledged.by}, for <Until at={a.acknowledged.until} />
                              {a.acknowledged.note && `: ${a.acknowledged.note}`}
                            </p>
                          )}
                          {acts && (
                            <button
                              type="button"
                              className="btn small"
                              onClick={() => ask(a)}
                              aria-label={a.acknowledged ? `Take back that ${a.id} is known` : `Acknowledge ${a.id}`}
                            >
                              {a.acknowledged ? 'Take back' : 'Acknowledge'}
                            </button>
                          )}
                        </div>
                      </li>
                    ))}
                  </ul>
                )}
              </Panel>
              <Day />
              <Panel title="Checks">
                <ul className="in attn">
                  {s.checks.map((k) => (
                    <li key={k.name}>
                      <span className={k.ok ? 't-ok' : 't-bad'}>
                        <Icon name={k.ok ? 'tick' : 'cross'} />
                      </span>
                      <div>
                        <b>{k.name}</b> <span className="sr">{k.ok ? 'passes' : 'fails'}</span> {k.text}
                      </div>
                    </li>
                  ))}
                </ul>
              </Panel>
              <Panel title="Just now">
                <Feed />
              </Panel>
            </div>
            <div className="stack">
              {(
                [
                  ['Machines', s.machines],
                  ['Clusters', s.clusters],
                  ['Nodes', s.nodes],
                ] as const
              ).map(([words, counts]) => (
                <Panel key={words} title={words}>
                  <Facts of={Object.entries(counts)} />
                </Panel>
              ))}
            </div>
          </div>
        </>
      )}
    </Loaded>
  )
}
