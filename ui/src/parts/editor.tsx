// A cluster file with what is wrong in it, where it is.
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands'
import { yaml } from '@codemirror/lang-yaml'
import { HighlightStyle, syntaxHighlighting } from '@codemirror/language'
import { type Diagnostic, setDiagnostics } from '@codemirror/lint'
import { EditorState, type Text } from '@codemirror/state'
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from '@codemirror/view'
import { tags } from '@lezer/highlight'
import { useEffect, useLayoutEffect, useRef } from 'react'

import type { Schemas } from '../api'

const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: 'var(--ink)' },
  { tag: [tags.string, tags.content], color: 'var(--ok)' },
  { tag: [tags.number, tags.bool], color: 'var(--go)' },
  { tag: tags.comment, color: 'var(--ink-3)' },
])

const look = EditorView.theme({
  '&': { height: '100%', fontSize: '12px', background: 'transparent' },
  '&.cm-focused': { outline: '2px solid var(--focus)', outlineOffset: '-2px' },
  '.cm-scroller': { font: '400 12px/20px var(--mono)', overflow: 'auto' },
  '.cm-gutters': { background: 'transparent', border: '0', color: 'var(--ink-3)' },
  '.cm-activeLine, .cm-activeLineGutter': { background: 'var(--go-tint)' },
  '.cm-cursor': { borderColor: 'var(--ink)' },
  '.cm-selectionBackground, &.cm-focused .cm-selectionBackground': { background: 'var(--line-2) !important' },
  '.cm-tooltip': { background: 'var(--raised)', border: '1px solid var(--line)', color: 'var(--ink)' },
})

/** placed is where a diagnostic of the API is in a text. One that names no place is of the first line. */
function placed(text: Text, d: Schemas['Diagnostic']): Diagnostic {
  const line = text.line(Math.min(Math.max(d.line ?? 1, 1), text.lines))
  const from = Math.min(line.from + Math.max((d.col ?? 1) - 1, 0), line.to)
  return { from, to: line.to, severity: 'error', message: d.hint ? `${d.text}: ${d.hint}` : d.text }
}

/** replace makes a text another one by changing what differs, so that the cursor stays where it is. */
function replace(view: EditorView, text: string) {
  const old = view.state.doc.toString()
  if (old === text) return
  const most = Math.min(old.length, text.length)
  let from = 0
  while (from < most && old[from] === text[from]) from++
  let tail = 0
  while (tail < most - from && old.at(-1 - tail) === text.at(-1 - tail)) tail++
  view.dispatch({ changes: { from, to: old.length - tail, insert: text.slice(from, text.length - tail) } })
}

export default function Editor(props: { text: string; onChange: (text: string) => void; wrong: Schemas['Diagnostic'][] }) {
  const place = useRef<HTMLDivElement>(null)
  const view = useRef<EditorView>(null)
  const change = useRef(props.onChange)
  change.current = props.onChange
  useEffect(() => {
    if (!place.current) return
    const made = new EditorView({
      parent: place.current,
      state: EditorState.create({
        doc: props.text,
        extensions: [
          lineNumbers(),
          history(),
          drawSelection(),
          highlightActiveLine(),
          yaml(),
          syntaxHighlighting(colours),
          look,
          keymap.of([...defaultKeymap.filter((k) => k.key !== 'Mod-Enter'), ...historyKeymap]), // Tab goes on to the next field
          EditorView.contentAttributes.of({ 'aria-label': 'Cluster file' }),
          EditorView.updateListener.of((u) => {
            if (u.docChanged) change.current(u.state.doc.toString())
          }),
        ],
      }),
    })
    view.current = made
    return () => {
      view.current = null
      made.destroy()
    }
  }, [])
  useLayoutEffect(() => {
    const now = view.current
    if (now) replace(now, props.text)
  }, [props.text])
  useEffect(() => {
    const now = view.current
    if (now)
      now.dispatch(
        setDiagnostics(
          now.state,
          props.wrong.map((d) => placed(now.state.doc, d)),
        ),
      )
  }, [props.wrong])
  return <div className="editor" ref={place} />
}
