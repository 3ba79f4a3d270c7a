// Signing in: by the code of `muster console`, which is in the part of the address that browsers never send, or by a token.
import { useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'

import { answer, api, NoAnswer, type Schemas } from '../api'
import { again, renew } from '../live'
import { Logo } from '../parts/icon'
import { Command, Wrong } from '../parts/panel'

/** codeOf is the code of an address; undefined if it has none. */
export function codeOf(fragment: string): string | undefined {
  return new URLSearchParams(fragment.replace(/^#/, '')).get('code') ?? undefined
}

/** SignIn is the page of who is not signed in; over a page it is a part of it, which keeps what was written there. */
export function SignIn({ over = false }: { over?: boolean }) {
  const queries = useQueryClient()
  const [wrong, setWrong] = useState<Error>()
  const [busy, setBusy] = useState(false)
  const [code, setCode] = useState(() => codeOf(location.hash))
  const signIn = async (credential: Schemas['Credential']) => {
    setBusy(true)
    setWrong(undefined)
    history.replaceState(null, '', location.pathname === '/sign-in' ? '/' : location.pathname + location.search)
    try {
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
  const submit = (e: FormEvent<HTMLFormElement>) => {
    e.preventDefault()
    const token = new FormData(e.currentTarget).get('token')
    if (typeof token === 'string' && token) void signIn({ token: token.trim() })
  }
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
            <button className="btn main" disabled={busy}>
              Sign in
            </button>
          </form>
        )}
      </section>
    </div>
  )
}
