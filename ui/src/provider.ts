// Signing in at the site's OpenID Connect provider: the browser goes there and comes back with a code (RFC 6749 section 4.1), which is
// good for nothing without what this tab keeps meanwhile (PKCE, RFC 7636). The controller exchanges it: no token comes here.
import type { Schemas } from './api'

/** path is where the provider sends browsers back to. */
const path = '/sign-in'

/** Begun is a sign-in on its way: what the provider is to say again, and the page to go to then. */
export type Begun = { state: string; nonce: string; verifier: string; redirect: string; page: string }

const text = (bytes: Uint8Array) =>
  btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '')

const number = () => text(crypto.getRandomValues(new Uint8Array(32)))

/** challenge is what the provider learns of a verifier before it sees that. */
export const challenge = async (verifier: string) =>
  text(new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(verifier))))

/** begin is a new sign-in, and the address at the provider where it goes on. */
export async function begin(ways: Schemas['Ways'], origin: string, page: string): Promise<{ begun: Begun; address: string }> {
  const begun = { state: number(), nonce: number(), verifier: number(), redirect: origin + path, page }
  const address = new URL(ways.authorization_endpoint)
  for (const [key, value] of Object.entries({
    response_type: 'code',
    client_id: ways.client_id,
    scope: ways.scopes.join(' '),
    redirect_uri: begun.redirect,
    state: begun.state,
    nonce: begun.nonce,
    code_challenge: await challenge(begun.verifier),
    code_challenge_method: 'S256',
  }))
    address.searchParams.set(key, value)
  return { begun, address: address.href }
}

/** Arrival is how a browser comes back: with what signs it in, or with what went wrong; and where it was before. */
export type Arrival = { page: string; given?: Schemas['CodeGiven']; wrong?: string }

/** arrival reads the address that a browser comes back to; undefined if it does not come from a provider. */
export function arrival(at: { pathname: string; search: string }, begun: Begun | undefined): Arrival | undefined {
  const says = new URLSearchParams(at.search)
  if (at.pathname !== path || !says.has('state')) return undefined
  if (!begun || says.get('state') !== begun.state)
    return { page: '/', wrong: 'This sign-in did not begin in this tab. Begin a new one.' }
  const { nonce, verifier, redirect, page } = begun
  const code = says.get('code')
  if (!code) return { page, wrong: `The provider says: ${says.get('error_description') ?? says.get('error') ?? 'nothing'}` }
  return { page, given: { code, nonce, verifier, redirect } }
}

const kept = 'sign-in'

/** leave sends the browser to the provider. */
export async function leave(ways: Schemas['Ways'], page: string) {
  if (!isSecureContext) throw new Error('The console needs HTTPS, or localhost.')
  const { begun, address } = await begin(ways, location.origin, page)
  sessionStorage.setItem(kept, JSON.stringify(begun))
  location.assign(address)
}

/** arrived is read before anything else can write the address. */
let arrived = here()

function here(): Arrival | undefined {
  try {
    const begun = sessionStorage.getItem(kept)
    sessionStorage.removeItem(kept)
    return arrival(location, begun === null ? undefined : (JSON.parse(begun) as Begun))
  } catch {
    return undefined // a browser that keeps nothing, or a test
  }
}

/** arrive is how this page was come back to, once. */
export function arrive(): Arrival | undefined {
  const how = arrived
  arrived = undefined
  return how
}
