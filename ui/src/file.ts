// A cluster file as text. Forms change single values in it: comments, order and fields that a form does not know stay.
import { type Document, isMap, parseDocument, stringify, visit } from 'yaml'

type Path = readonly (string | number)[]

/** Queue is one of a file, as it is written there. */
export type Queue = {
  name: string
  class?: string
  nodes?: number
  min?: number
  max?: number
  placement?: string
  idle_after?: string
}

/** File is what a form shows of a cluster file. Anything may be missing or of another kind: users write it. */
export type File = {
  name?: string
  image?: string
  nodes?: number
  queues?: Queue[]
  lease?: { start?: string; for?: string; on_end?: string }
  budget?: { limit?: string; on_limit?: string }
}

const object = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const plain = (value: unknown) => value == null || ['string', 'number', 'boolean'].includes(typeof value)

const counts = (of: Record<string, unknown>) => ['nodes', 'min', 'max'].every((n) => of[n] == null || typeof of[n] === 'number')

/** part says that a value may be shown: nothing, or an object whose fields of these names are plain. */
const part = (value: unknown, ...names: string[]) => value === undefined || (object(value) && names.every((n) => plain(value[n])))

/** aliased says whether a document has an alias. The controller takes none, and a form would change what it stands for. */
function aliased(document: Document): boolean {
  let found = false
  visit(document, {
    Alias() {
      found = true
      return visit.BREAK
    },
  })
  return found
}

/** read is what a text says, or undefined if it is no cluster file that a form can show. */
export function read(text: string): File | undefined {
  const document = parseDocument(text)
  if (document.errors.length > 0 || aliased(document)) return undefined
  const file: unknown = document.toJS()
  if (!object(file)) return undefined
  const { lease, budget, queues } = file
  const fits =
    part(file, 'name', 'image') &&
    counts(file) &&
    part(lease, 'start', 'for', 'on_end') &&
    part(budget, 'limit', 'on_limit') &&
    (queues === undefined ||
      (Array.isArray(queues) &&
        queues.every((q) => object(q) && counts(q) && part(q, 'name', 'class', 'placement', 'idle_after'))))
  return fits ? (file as File) : undefined
}

/** write changes one value of a text; undefined or '' removes it, but a name stays, empty. What is not to be written stays as it is. */
export function write(text: string, path: Path, value: unknown): string {
  const document = parseDocument(text)
  try {
    if (value === undefined || (value === '' && path.at(-1) !== 'name')) remove(document, path)
    else document.setIn(path, typeof value === 'object' ? document.createNode(value) : value)
    return document.toString({ lineWidth: 0 })
  } catch {
    return text
  }
}

/** remove takes a value out, and the part of the file that has nothing else. */
function remove(document: Document, path: Path) {
  if (!document.hasIn(path)) return
  document.deleteIn(path)
  const above = path.slice(0, -1)
  const left = above.length === 1 ? document.getIn(above) : undefined
  if (isMap(left) && left.items.length === 0) document.deleteIn(above)
}

/** addQueue adds a queue; a file that only says how many nodes there are gets a list of queues. */
export function addQueue(text: string, file: File): string {
  const taken = new Set(file.queues?.map((q) => q.name))
  let name = 'cpu'
  for (let n = 2; taken.has(name); n++) name = `cpu${n}`
  if (file.queues) return write(text, ['queues', file.queues.length], { name, nodes: 1 })
  const queues =
    file.nodes === undefined
      ? [{ name, nodes: 1 }]
      : [
          { name: 'main', nodes: file.nodes },
          { name, nodes: 1 },
        ]
  return write(write(text, ['queues'], queues), ['nodes'], undefined)
}

/** resize makes a queue one of a fixed size, or one that grows from min to max. */
export function resize(text: string, index: number, min: number, max: number, grows: boolean): string {
  const at = (field: string) => ['queues', index, field]
  if (grows) return write(write(write(text, at('nodes'), undefined), at('min'), min), at('max'), max)
  return write(write(write(text, at('min'), undefined), at('max'), undefined), at('nodes'), max)
}

/** sizeOf is how many nodes a queue has at least and at most. */
export function sizeOf(q: Queue): { min: number; max: number; grows: boolean } {
  const min = q.nodes ?? q.min ?? 0
  const max = q.nodes ?? q.max ?? min
  return { min, max, grows: q.nodes === undefined && (q.min !== undefined || q.max !== undefined) }
}

type Offer = { kind: string; start?: string; for?: string; queue?: string; nodes?: number; class?: string }

/** accept is a file with what is offered instead of what it asks for. What cannot be written there stays as it is. */
export function accept(text: string, file: File, offer: Offer): string {
  if (offer.kind === 'later') return write(text, ['lease', 'start'], offer.start)
  if (offer.kind === 'shorter') return write(text, ['lease', 'for'], offer.for)
  if (!file.queues && file.nodes !== undefined) {
    if (offer.nodes !== undefined) return write(text, ['nodes'], offer.nodes)
    if (!offer.class) return text
    const queues = [{ name: offer.queue, class: offer.class, nodes: file.nodes }]
    return write(write(text, ['queues'], queues), ['nodes'], undefined)
  }
  const index = file.queues?.findIndex((q) => q.name === offer.queue) ?? -1
  const queue = file.queues?.[index]
  if (!queue) return text
  if (offer.class) return write(write(text, ['queues', index, 'class'], offer.class), ['queues', index, 'or'], undefined)
  if (offer.nodes === undefined) return text
  return write(text, ['queues', index, queue.nodes === undefined ? 'min' : 'nodes'], offer.nodes)
}

/** begin is the file of a new cluster. */
export function begin(project: string, taken: string[]): string {
  let name = 'first'
  for (let n = 2; taken.includes(name); n++) name = `cluster-${n}`
  return stringify({ name, project, queues: [{ name: 'cpu', nodes: 2 }] })
}

type Spec = { queues?: readonly object[]; lease?: object }

/** fileOf is the file of a cluster that there is: a queue that does not grow has its size. */
export function fileOf(spec: Spec): string {
  const queues = spec.queues?.map((one) => {
    const { min, max, ...queue } = one as Partial<Queue>
    return min === max ? { ...queue, nodes: max ?? queue.nodes } : { ...queue, min, max }
  })
  return stringify({ ...spec, ...(queues ? { queues } : {}) }, { lineWidth: 0 })
}

/** likeOf is the file of another cluster like one that there is, which begins when it is asked for. */
export function likeOf(spec: Spec, project: string, name: string): string {
  const copy = { ...spec, project, name }
  if (spec.lease) copy.lease = { ...spec.lease, start: undefined }
  return fileOf(copy)
}
