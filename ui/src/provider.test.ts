import { expect, test } from 'vitest'

import { arrival, begin, challenge } from './provider'

const ways = {
  issuer: 'https://id.example.org/realms/lab',
  client_id: 'muster',
  scopes: ['openid', 'profile'],
  authorization_endpoint: 'https://id.example.org/auth?tenant=lab',
  for: '12h',
}

test('a challenge is that of RFC 7636, appendix B', async () => {
  const verifier = 'dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk'
  expect(await challenge(verifier)).toBe('E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM')
})

test('a browser goes to the provider and comes back to where it was', async () => {
  const { begun, address } = await begin(ways, 'https://muster.example.org', '/projects/aero')
  const asked = new URL(address).searchParams
  expect(asked.get('tenant')).toBe('lab')
  expect(asked.get('scope')).toBe('openid profile')
  expect(asked.get('redirect_uri')).toBe('https://muster.example.org/sign-in')
  expect(asked.get('code_challenge')).toBe(await challenge(begun.verifier))
  const search = `?${new URLSearchParams({ code: 'a+b/c=', state: begun.state })}`
  expect(arrival({ pathname: '/sign-in', search }, begun)).toEqual({
    page: '/projects/aero',
    given: { code: 'a+b/c=', nonce: begun.nonce, verifier: begun.verifier, redirect: begun.redirect },
  })
  const again = await begin(ways, 'https://muster.example.org', '/')
  for (const key of ['state', 'nonce', 'verifier'] as const) expect(again.begun[key]).not.toBe(begun[key])
  expect(address).not.toContain(begun.verifier)
})

test('nobody is signed in by an address that somebody else has made', async () => {
  const { begun } = await begin(ways, 'https://muster.example.org', '/')
  const at = (search: string) => ({ pathname: '/sign-in', search })
  expect(arrival(at('?code=theirs&state=theirs'), begun)).toHaveProperty('wrong')
  expect(arrival(at('?code=theirs&state=theirs'), undefined)).toHaveProperty('wrong')
  expect(arrival(at('?code=theirs&state=undefined'), undefined)).toHaveProperty('wrong')
  expect(arrival(at('?code=theirs'), begun)).toBeUndefined()
  expect(arrival({ pathname: '/', search: `?code=theirs&state=${begun.state}` }, begun)).toBeUndefined()
  expect(arrival(at(`?error=access_denied&error_description=Not+you&state=${begun.state}`), begun)).toEqual({
    page: '/',
    wrong: 'The provider says: Not you',
  })
})
