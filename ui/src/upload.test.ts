import { expect, test } from 'vitest'

import { below, contentOf, stepsTo } from './upload'

test('the address of a file holds any name', () => {
  const name = 'a b&replace=true#?%2F\u202e.txt'
  const address = new URL(contentOf('aero/cfd', below('/home/alice', name)), 'http://muster.test')
  expect(address.pathname).toBe('/v1/clusters/aero%2Fcfd/files/content')
  expect([...address.searchParams]).toEqual([['path', `/home/alice/${name}`]])
  expect(new URL(contentOf('aero/cfd', '/a', true), 'http://muster.test').searchParams.get('replace')).toBe('true')
})

test('a path has steps', () => {
  expect(stepsTo('/')).toEqual([['/', '/']])
  expect(stepsTo('/home/alice')).toEqual([
    ['/', '/'],
    ['home', '/home'],
    ['alice', '/home/alice'],
  ])
  expect(below('/', 'home')).toBe('/home')
})
