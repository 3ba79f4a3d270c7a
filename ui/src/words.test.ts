import { describe, expect, test } from 'vitest'

import { bytes, clock, count, money, span } from './words'

describe('words', () => {
  test.each([
    [0, '0s'],
    [-5, '0s'],
    [59.9, '59s'],
    [64, '1m 4s'],
    [3600, '1h'],
    [3661, '1h 1m'],
    [6 * 86_400 + 22 * 3600 + 59, '6d 22h'],
  ])('%d seconds are %s', (seconds, text) => expect(span(seconds)).toBe(text))

  test.each([
    ['12.50 EUR', '12.50', 'EUR'],
    ['3412.604000 EUR', '3,412.60', 'EUR'],
    ['7 EUR', '7.00', 'EUR'],
  ])('%s', (amount, number, currency) => expect(money(amount)).toEqual({ number, currency }))

  test.each([
    [512, '512 B'],
    [1536, '1.5 KiB'],
    [41 * 2 ** 30, '41 GiB'],
  ])('%d bytes are %s', (n, text) => expect(bytes(n)).toBe(text))

  test('one and several', () => expect([count(1, 'node'), count(3, 'node')]).toEqual(['1 node', '3 nodes']))

  test('a time of today and one of another day', () => {
    const now = new Date(2026, 10, 22, 18, 30)
    expect(clock(new Date(2026, 10, 22, 8, 4, 7), now)).toBe('08:04:07')
    expect(clock(new Date(2026, 10, 21, 8, 4, 7), now)).toBe('21 Nov 08:04')
  })
})
