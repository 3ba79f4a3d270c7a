import { expect, test } from 'vitest'

import { accept, addQueue, begin, fileOf, likeOf, read, resize, write } from './file'

const text = `# for the wing
name: cfd
queues:
  - name: mpi # large
    nodes: 16
    vm: {cpus: 4}
lease:
  for: 2d
`

test('a value changes, and all else stays', () => {
  const changed = write(text, ['queues', 0, 'nodes'], 24)
  expect(changed).toBe(text.replace('16', '24').replace('{cpus: 4}', '{ cpus: 4 }'))
})

test('what is removed leaves nothing empty', () => {
  expect(write(text, ['lease', 'for'], '')).not.toContain('lease')
  expect(write(text, ['budget', 'limit'], undefined)).toContain('for: 2d')
})

test('what is new is written where it belongs', () => {
  expect(read(write(text, ['budget', 'limit'], '500 EUR'))?.budget).toEqual({ limit: '500 EUR' })
})

test('a queue grows, and has a fixed size again', () => {
  const grows = resize(text, 0, 0, 12, true)
  expect(read(grows)?.queues?.[0]).toMatchObject({ name: 'mpi', min: 0, max: 12, vm: { cpus: 4 } })
  expect(grows).toContain('# large')
  expect(read(resize(grows, 0, 3, 3, false))?.queues?.[0]).toEqual({ name: 'mpi', nodes: 3, vm: { cpus: 4 } })
})

test('queues are added, to a short file too', () => {
  expect(read(addQueue(text, read(text)!))?.queues?.map((q) => q.name)).toEqual(['mpi', 'cpu'])
  const short = 'name: a\nnodes: 3\n'
  expect(read(addQueue(short, read(short)!))).toEqual({
    name: 'a',
    queues: [
      { name: 'main', nodes: 3 },
      { name: 'cpu', nodes: 1 },
    ],
  })
})

test('what no form can show is left alone', () => {
  for (const odd of [
    '',
    'a',
    '- a',
    'name: [',
    'queues: 3',
    'queues: [3]',
    'lease: 2d',
    'image: *a',
    'a: &x 1\nb: *x',
    'name: {}',
  ])
    expect(read(odd)).toBeUndefined()
})

test('a new cluster has a name that is free', () => {
  expect(begin('aero', ['first', 'cluster-2'])).toContain('name: cluster-3')
})

test('a name may be empty while somebody writes another', () => {
  expect(write('name: a # x\nnodes: 1\n', ['name'], '')).toBe('name: "" # x\nnodes: 1\n')
  expect(read(write('name: a\nqueues:\n  - name: b\n', ['queues', 0, 'name'], ''))?.queues).toHaveLength(1)
})

test('what cannot be written changes nothing', () => {
  expect(write('lease: 2d\n', ['lease', 'for'], '3d')).toBe('lease: 2d\n')
})

test('the file of a cluster has the sizes that a user would write', () => {
  const spec = {
    name: 'a',
    project: 'p',
    queues: [
      { name: 'x', min: 2, max: 2 },
      { name: 'y', min: 0, max: 4 },
    ],
  }
  expect(read(fileOf(spec))?.queues).toEqual([
    { name: 'x', nodes: 2 },
    { name: 'y', min: 0, max: 4 },
  ])
  const like = likeOf({ ...spec, lease: { start: '2026-01-01T00:00:00Z', for: '2d' } }, 'q', 'b')
  expect(read(like)).toMatchObject({ name: 'b', project: 'q', lease: { for: '2d' } })
  expect(like).not.toContain('start')
})

test('what is offered is written where it belongs', () => {
  const grows = 'name: a\nqueues:\n  - { name: one, nodes: 1 }\n  - { name: cpu, min: 4, max: 8 }\n'
  const taking = (from: string, offer: Parameters<typeof accept>[2]) => read(accept(from, read(from)!, offer))
  expect(taking(text, { kind: 'smaller', queue: 'mpi', nodes: 3 })?.queues?.[0]).toMatchObject({ nodes: 3, vm: { cpus: 4 } })
  expect(taking(grows, { kind: 'smaller', queue: 'cpu', nodes: 2 })?.queues?.[1]).toEqual({ name: 'cpu', min: 2, max: 8 })
  expect(taking('name: a\nnodes: 9\n', { kind: 'smaller', queue: 'main', nodes: 2 })?.nodes).toBe(2)
  expect(taking('name: a\nnodes: 9\n', { kind: 'other-class', queue: 'main', class: 'big' })).toEqual({
    name: 'a',
    queues: [{ name: 'main', class: 'big', nodes: 9 }],
  })
  const or = 'name: a\nqueues:\n  - { name: cpu, class: small, or: [middle], nodes: 1 }\n'
  expect(taking(or, { kind: 'other-class', queue: 'cpu', class: 'big' })?.queues?.[0]).toEqual({
    name: 'cpu',
    nodes: 1,
    class: 'big',
  })
  expect(taking(grows, { kind: 'other-class', queue: 'one', class: 'big' })?.queues?.[0]).toEqual({
    name: 'one',
    nodes: 1,
    class: 'big',
  })
  expect(taking(grows, { kind: 'later', start: '2026-12-01T08:00:00Z' })?.lease).toEqual({ start: '2026-12-01T08:00:00Z' })
  expect(taking(text, { kind: 'shorter', for: '7h' })?.lease?.for).toBe('7h')
  expect(accept(text, read(text)!, { kind: 'smaller', queue: 'gone', nodes: 2 })).toBe(text)
  expect(accept(text, read(text)!, { kind: 'of another release' })).toBe(text)
})
