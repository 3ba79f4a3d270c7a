import type { UseInfiniteQueryResult, UseQueryResult } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'

import { NoAnswer, Refused } from '../api'
import { Icon } from './icon'

/** Panel is a part of a page with a heading. */
export function Panel({
  title,
  beside,
  more,
  children,
}: {
  title: string
  beside?: ReactNode
  more?: ReactNode
  children: ReactNode
}) {
  return (
    <section className="panel" aria-label={title}>
      <header>
        <h2>{title}</h2>
        {beside}
        {more && <span className="more">{more}</span>}
      </header>
      {children}
    </section>
  )
}

/** Facts are what is known of something, by name; what is not known is left out. */
export function Facts({ of }: { of: readonly (readonly [words: string, value: ReactNode])[] }) {
  return (
    <dl className="in facts">
      {of
        .filter(([, value]) => value !== undefined && value !== '')
        .map(([words, value]) => (
          <div key={words} style={{ display: 'contents' }}>
            <dt>{words}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  )
}

/**
 * Loaded shows what a query has found; until then bones, and why it found nothing. What was found stays while it is asked again, but
 * not when it is gone, or is not for this person any more.
 */
export function Loaded<T>({ query, children }: { query: UseQueryResult<T>; children: (data: T) => ReactNode }) {
  const gone = query.error instanceof Refused && [403, 404].includes(query.error.problem.status)
  if (query.data !== undefined && !gone) return children(query.data)
  if (query.error) return <Wrong why={query.error} />
  return <Bones />
}

/** Older asks for the next page of a list whose newest rows come first, if there is one, and says why it does not come. */
export function Older({ query }: { query: UseInfiniteQueryResult }) {
  return (
    <>
      {query.isFetchNextPageError && <Wrong why={query.error} />}
      {query.hasNextPage && (
        <footer>
          <button type="button" className="btn small" disabled={query.isFetching} onClick={() => void query.fetchNextPage()}>
            Older ones
          </button>
        </footer>
      )}
    </>
  )
}

export function Bones() {
  return (
    <div className="in stack" aria-busy="true">
      <span className="sr">Loading</span>
      {[120, 84, 140].map((width) => (
        <div key={width} className="skeleton" style={{ width, height: 12 }} />
      ))}
    </div>
  )
}

/** Wrong says why something could not be done. A quiet one is not read out: something beside it is. */
export function Wrong({ why, quiet = false }: { why: Error; quiet?: boolean }) {
  const refused = why instanceof Refused ? why.problem : undefined
  return (
    <div className="in">
      <div className="note bad" role={quiet ? undefined : 'alert'}>
        <Icon name="cross" />
        <div>
          <b>
            {why instanceof NoAnswer
              ? 'The controller does not answer'
              : (refused?.detail ?? (why.message || 'Something went wrong'))}
          </b>
          {refused?.errors
            ?.filter((d) => !refused.detail.includes(d.text))
            .map((d) => (
              <p key={`${d.path} ${d.text}`}>
                {d.path && <code>{d.path}</code>} {d.text}
                {d.hint && `: ${d.hint}`}
              </p>
            ))}
        </div>
      </div>
    </div>
  )
}

/** Copy puts a text where it can be pasted from, and says whether that went well. */
export function Copy({ text, what, children }: { text: string; what: string; children?: ReactNode }) {
  const [said, setSaid] = useState('')
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text)
      setSaid('Copied')
    } catch {
      setSaid('The browser does not let it be copied')
    }
    setTimeout(() => setSaid(''), 2000)
  }
  return (
    <>
      <button
        type="button"
        className={children ? 'btn quiet small' : 'btn quiet small icon'}
        aria-label={children ? undefined : `Copy ${what}`}
        onClick={() => void copy()}
      >
        <Icon name={said === 'Copied' ? 'tick' : said ? 'cross' : 'copy'} />
        {children}
      </button>
      <span className="sr" role="status">
        {said}
      </span>
    </>
  )
}

/** Command is a line for a terminal, to be copied. */
export function Command({ text }: { text: string }) {
  return (
    <span className="cmd">
      <span className="clip" title={text}>
        {text}
      </span>
      <Copy text={text} what="the command" />
    </span>
  )
}
