// Signing in: by the code of `muster console`, which is in the part of the address that browsers never send, at the site's OpenID
// Connect provider, or by a token.
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useEffect, useState } from 'react'

import { answer, api, NoAnswer, Refused, type Schemas } from '../api'
import { again, renew } from '../live'
import { Logo } from '../parts/icon'
import { Command, Wrong } from '../parts/panel'
import { arrive, leave } from '../provider'

/** codeOf is the code of an address; undefined if it has none. */
export function codeOf(fragment: string): string | undefined {
  return new URLSearchParams(fragment.replace(/^#/, '')).get('code') ?? undefined
}

/** here is the page that somebody was on when they had to sign in. */
const here = () => (location.pathname === '/sign-in' ? '/' : location.pathname.replace(/^\/+/, '/') + location.search)

const waysQuery = { queryKey: ['login'], queryFn: () => answer(api.GET('/v1/login')) }

/** none says that a site has no provider. */
const none = (why: Error) => why instanceof Refused && why.problem.status === 404

/** SignIn is the page of who is not signed in; over a page it is a part of it, which keeps what was written there. */
export function SignIn({ over = false }: { over?: boolean }) {
  const queries = useQueryClient()
  const [wrong, setWrong] = useState<Error>()
  const [busy, setBusy] = useState(false)
  const [code, setCode] = useState(() => codeOf(location.hash))
  const ways = useQuery({ ...waysQuery, enabled: !over && !code })
  const signIn = async (credential: Schemas['Credential'], page = here()) => {
    setBusy(true)
    setWrong(undefined)
    try {
      history.replaceState(null, '', page)
      await answer(api.POST('/v1/console/session', { body: credential }))
      again()
      await renew(queries).catch((why: unknown) => {
        throw why instanceof NoAnswer
          ? why
          : new Error('The browser did not keep the cookie. The console needs HTTPS, or localhost.')
      })
      setCode(undefined)
    } catch (why) {
      if (!(why instanceof NoAnswer)) setCode(undefined)
      setWrong(why as Error)
    }
    setBusy(false)
  }
  const go = (to: Schemas['Ways']) => void leave(to, here()).catch(setWrong)
  const submit = (e: FormEvent<HTMLFormElement>) => {
    e.preventDefault()
    const token = new FormData(e.currentTarget).get('token')
    if (typeof token === 'string' && token) void signIn({ token: token.trim() })
  }
  useEffect(() => {
    const how = over ? undefined : arrive()
    if (how?.given) void signIn({ provider: how.given }, how.page)
    else if (how) {
      history.replaceState(null, '', how.page)
      setWrong(new Error(how.wrong))
    }
  })
  useEffect(() => {
    if (!over) return
    const look = () => {
      if (document.visibilityState === 'visible') renew(queries).then(again, () => {}) // as another tab has signed in
    }
    document.addEventListener('visibilitychange', look)
    return () => document.removeEventListener('visibilitychange', look)
  }, [over, queries])
  return (
    <div className={over ? 'stack' : 'door'}>
      <h1 className="line">
        <Logo /> {over ? 'Sign in again' : 'Muster'}
      </h1>
      {wrong && <Wrong why={wrong} />}
      <section className="panel" aria-label="Sign in">
        {code ? (
          <div className="in stack">
            <p>
              This address signs you in. Go on if it is you who ran <code>muster console</code>: whoever gave it to you would see
              what you do.
            </p>
            <button type="button" className="btn main" disabled={busy} onClick={() => void signIn({ code })} autoFocus>
              Sign in
            </button>
          </div>
        ) : (
          <form className="in stack" onSubmit={submit}>
            {over && (
              <div className="field">
                <a className="btn" href="/sign-in" target="_blank" rel="noreferrer">
                  Sign in in a new tab
                </a>
                <span className="hint">This page goes on then, as it is.</span>
              </div>
            )}
            {ways.error && !none(ways.error) && <Wrong why={ways.error} quiet />}
            {ways.data && (
              <button type="button" className="btn main" disabled={busy} onClick={() => go(ways.data)}>
                Sign in at {new URL(ways.data.issuer).host}
              </button>
            )}
            <div className="field">
              <span className="label">From a terminal where you use Muster</span>
              <Command text="muster console" />
            </div>
            <div className="field">
              <label htmlFor="token">Or with a token</label>
              <input className="input" id="token" name="token" type="password" autoComplete="off" spellCheck={false} />
              <span className="hint">
                <code>muster tokens add</code> makes one. Muster does not keep it in the browser.
              </span>
            </div>
            <button className={ways.data ? 'btn' : 'btn main'} disabled={busy}>
              Sign in
            </button>
          </form>
        )}
      </section>
    </div>
  )
}
