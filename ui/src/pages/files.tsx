// The files of a cluster, in one's own account: what directories hold, and carrying files there and back.
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { type DragEvent, useRef, useState } from 'react'

import { answer, api, type Schemas } from '../api'
import { filesQuery } from '../data'
import { Ask } from '../parts/ask'
import { Text } from '../parts/fields'
import { Icon } from '../parts/icon'
import { Command, Loaded, Panel, Wrong } from '../parts/panel'
import { Table } from '../parts/table'
import { Ago } from '../parts/time'
import { useTitle } from '../parts/title'
import { below, contentOf, stepsTo } from '../upload'
import { bytes } from '../words'
import { Uploads, useUploads } from './uploads'

const here = '/projects/$project/clusters/$cluster/files'
const route = getRouteApi(here)

type File_ = Schemas['File']
type Doing = { does: 'rename' | 'delete'; file: File_ } | { does: 'make' } | { does: 'replace'; files: File[] }

/** most is how many entries are shown at once. */
const most = 500

export function Files() {
  const { project, cluster } = route.useParams()
  return <Page key={`${project}/${cluster}`} />
}

function Page() {
  const { project, cluster } = route.useParams()
  const { path = '' } = route.useSearch()
  useTitle(`Files on ${cluster}`)
  const ref = `${project}/${cluster}`
  const queries = useQueryClient()
  const again = () => queries.invalidateQueries({ queryKey: ['files', ref] })
  const uploads = useUploads(ref, () => void again())
  const listing = useQuery(filesQuery(ref, path))
  return (
    <>
      <div className="head">
        <h1>
          Files on{' '}
          <Link to="/projects/$project/clusters/$cluster" params={{ project, cluster }}>
            {cluster}
          </Link>
        </h1>
        <Link className="btn" to={here} params={{ project, cluster }} search={{}}>
          <Icon name="home" /> My files
        </Link>
      </div>
      <div className="stack">
        <Uploads {...uploads} />
        <Loaded query={listing}>{(all) => <Directory key={all.path} all={all} add={uploads.add} again={again} />}</Loaded>
      </div>
    </>
  )
}

type Props = { all: Schemas['Files']; add: ReturnType<typeof useUploads>['add']; again: () => Promise<void> }

function Directory({ all, add, again }: Props) {
  const { project, cluster } = route.useParams()
  const [hidden, setHidden] = useState(false)
  const [words, setWords] = useState('')
  const [doing, setDoing] = useState<Doing>()
  const [over, setOver] = useState(false)
  const [folders, setFolders] = useState<string[]>([])
  const input = useRef<HTMLInputElement>(null)
  const there = new Set(all.items.map((f) => f.name))
  const found = all.items.filter((f) => (hidden || !f.name.startsWith('.')) && f.name.toLowerCase().includes(words.toLowerCase()))
  const unshown = found.length - most

  const take = (files: File[]) => {
    if (files.length === 0) return
    if (files.some((f) => there.has(f.name))) setDoing({ does: 'replace', files })
    else add(all.path, files)
  }
  const drop = (e: DragEvent) => {
    e.preventDefault()
    setOver(false)
    const items = [...e.dataTransfer.items]
    const folders = new Set(items.map((i) => i.webkitGetAsEntry()).flatMap((i) => (i?.isDirectory ? [i.name] : [])))
    setFolders([...folders])
    take([...e.dataTransfer.files].filter((f) => !folders.has(f.name)))
  }
  const drag = (e: DragEvent, is: boolean) => {
    if (!e.dataTransfer.types.includes('Files')) return
    e.preventDefault()
    setOver(is)
  }
  const close = () => setDoing(undefined)
  return (
    <div className="stack" onDragOver={(e) => drag(e, true)} onDragLeave={(e) => drag(e, false)} onDrop={drop}>
      <div className="line path">
        <nav aria-label="Path">
          {stepsTo(all.path).map(([name, path], i) => (
            <span key={path}>
              {i > 1 && <span className="faint">/</span>}
              <Link className="mono" to={here} params={{ project, cluster }} search={{ path }}>
                {name}
              </Link>
            </span>
          ))}
        </nav>
        <span className="grow" />
        <button type="button" className="btn" onClick={() => setDoing({ does: 'make' })}>
          <Icon name="plus" /> New directory
        </button>
        <button type="button" className="btn main" onClick={() => input.current?.click()}>
          <Icon name="upload" /> Upload
        </button>
        <input
          ref={input}
          type="file"
          multiple
          hidden
          onChange={(e) => {
            take([...(e.target.files ?? [])])
            e.target.value = ''
          }}
        />
      </div>
      {folders.length > 0 && <Wrong why={new Error(`Folders cannot be uploaded: ${folders.join(', ')}. Pack them first.`)} />}
      <div className={over ? 'drop' : undefined}>
        <Panel
          title="Entries"
          beside={
            <input
              className="filter"
              aria-label="Filter by name"
              placeholder="Filter by name"
              value={words}
              onChange={(e) => setWords(e.target.value)}
            />
          }
          more={
            <button type="button" className="btn quiet small" aria-pressed={hidden} onClick={() => setHidden(!hidden)}>
              {hidden ? 'Leave hidden ones out' : 'Show hidden ones'}
            </button>
          }
        >
          <Table
            label="Entries"
            rows={found.slice(0, most)}
            of={(f) => f.name}
            none={
              words
                ? 'None has such a name.'
                : all.items.length > 0
                  ? 'All are hidden.'
                  : 'It is empty. Drop files here, or press Upload.'
            }
            columns={[
              ['Name', (f) => <Name f={f} at={all.path} />],
              ['Size', (f) => (f.directory ? '' : bytes(f.size)), 'right'],
              ['Changed', (f) => <Ago at={f.modified} />],
              ['Mode', (f) => f.mode, 'mono'],
              [
                '',
                (f) => (
                  <span className="line end">
                    <button type="button" className="btn quiet small" onClick={() => setDoing({ does: 'rename', file: f })}>
                      Rename<span className="sr"> {f.name}</span>
                    </button>
                    <button type="button" className="btn quiet small" onClick={() => setDoing({ does: 'delete', file: f })}>
                      Delete<span className="sr"> {f.name}</span>
                    </button>
                  </span>
                ),
                'right',
              ],
            ]}
          />
          {unshown > 0 && <footer className="line">{unshown} more. Filter by name to see them.</footer>}
          {all.omitted && <footer className="line">{all.omitted} more are not listed. A terminal shows them.</footer>}
        </Panel>
      </div>
      <p className="dim line">
        To copy whole directories, or thousands of files:{' '}
        <Command text={`sftp -D 'muster ssh ${project}/${cluster} -- /usr/lib/openssh/sftp-server'`} />
      </p>
      {doing?.does === 'make' && <Make at={all.path} there={there} done={again} onClose={close} />}
      {doing?.does === 'rename' && <Rename f={doing.file} at={all.path} there={there} done={again} onClose={close} />}
      {doing?.does === 'delete' && <Delete f={doing.file} at={all.path} done={again} onClose={close} />}
      {doing?.does === 'replace' && (
        <Ask title="Replace files" act="Replace" bad onAct={async () => add(all.path, doing.files, there)} onClose={close}>
          <p>These are there already. What they hold is lost.</p>
          <ul className="effects">
            {doing.files
              .filter((f) => there.has(f.name))
              .map((f) => (
                <li key={f.name}>
                  <bdi>{f.name}</bdi>
                </li>
              ))}
          </ul>
        </Ask>
      )}
    </div>
  )
}

/** Name is an entry's, with what it leads to. */
function Name({ f, at }: { f: File_; at: string }) {
  const { project, cluster } = route.useParams()
  const path = below(at, f.name)
  const name = <bdi>{f.name}</bdi>
  return (
    <span className="line">
      <Icon name={f.directory ? 'folder' : 'file'} />
      {f.directory ? (
        <Link to={here} params={{ project, cluster }} search={{ path }}>
          {name}
        </Link>
      ) : f.kind === 'other' ? (
        name
      ) : (
        <a href={contentOf(`${project}/${cluster}`, path)} download={f.name}>
          {name}
        </a>
      )}
      {f.kind === 'link' && <span className="faint">link</span>}
    </span>
  )
}

type In = { at: string; done: () => Promise<void>; onClose: () => void }

/** wrongName is why something may not be called so. */
function wrongName(name: string, there: Set<string>): string | undefined {
  if (name.includes('/')) return 'A name has no /.'
  return there.has(name) ? 'It is there already.' : undefined
}

function Make({ at, there, done, onClose }: In & { there: Set<string> }) {
  const { project, cluster } = route.useParams()
  const [name, setName] = useState('')
  const wrong = wrongName(name, there)
  return (
    <Ask
      title="New directory"
      act="Make it"
      ready={name !== '' && !wrong}
      onAct={async () => {
        await answer(
          api.POST('/v1/clusters/{cluster}/files/directories', {
            params: { path: { cluster: `${project}/${cluster}` } },
            body: { path: below(at, name) },
          }),
        )
        await done()
      }}
      onClose={onClose}
    >
      <Text label="Its name" value={name} onChange={setName} wrong={wrong} />
    </Ask>
  )
}

function Rename({ f, at, there, done, onClose }: In & { f: File_; there: Set<string> }) {
  const { project, cluster } = route.useParams()
  const [name, setName] = useState(f.name)
  const wrong = name === f.name ? undefined : wrongName(name, there)
  return (
    <Ask
      title={`Rename ${f.name}`}
      act="Rename"
      ready={name !== '' && name !== f.name && !wrong}
      onAct={async () => {
        await answer(
          api.POST('/v1/clusters/{cluster}/files/move', {
            params: { path: { cluster: `${project}/${cluster}` } },
            body: { from: below(at, f.name), to: below(at, name) },
          }),
        )
        await done()
      }}
      onClose={onClose}
    >
      <Text label="Its new name" value={name} onChange={setName} wrong={wrong} />
    </Ask>
  )
}

/** effects are what comes of it when something is deleted. */
const effects: Record<File_['kind'], string> = {
  directory: 'Only an empty directory can be deleted here.',
  file: 'It cannot be brought back.',
  link: 'Only the link is deleted, and not what it leads to.',
  other: 'It cannot be brought back.',
}

function Delete({ f, at, done, onClose }: In & { f: File_ }) {
  const { project, cluster } = route.useParams()
  return (
    <Ask
      title={`Delete ${f.name}`}
      act="Delete"
      bad
      onAct={async () => {
        await answer(
          api.DELETE('/v1/clusters/{cluster}/files', {
            params: { path: { cluster: `${project}/${cluster}` }, query: { path: below(at, f.name) } },
          }),
        )
        await done()
      }}
      onClose={onClose}
    >
      <p>{effects[f.kind]}</p>
    </Ask>
  )
}
