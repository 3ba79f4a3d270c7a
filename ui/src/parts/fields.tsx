// Parts of forms.
import { NumberField } from '@base-ui/react/number-field'
import { type ReactNode, useEffect, useId, useRef, useState } from 'react'

/** useTyped is what somebody types: it is shown at once, and kept a moment after the last key. kept may change by itself, too. */
export function useTyped(kept: string, keep: (text: string) => void): [string, (text: string) => void] {
  const [typed, type] = useState(kept)
  const settled = useSettled(typed, 250)
  const latest = useRef(keep)
  latest.current = keep
  const said = useRef(kept)
  useEffect(() => {
    if (settled === said.current) return
    said.current = settled
    latest.current(settled)
  }, [settled])
  useEffect(() => {
    if (kept === said.current) return
    said.current = kept
    type(kept)
  }, [kept])
  return [typed, type]
}

/** useSettled is a value that has not changed for some milliseconds. */
export function useSettled<T>(value: T, milliseconds: number): T {
  const [settled, setSettled] = useState(value)
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), milliseconds)
    return () => clearTimeout(timer)
  }, [value, milliseconds])
  return settled
}

/** Field is one thing to fill in, with its name, a hint, and what is wrong with it. */
export function Field({
  label,
  hint,
  wrong,
  children,
}: {
  label: string
  hint?: ReactNode
  wrong?: string | undefined
  children: (id: string, described: string | undefined) => ReactNode
}) {
  const id = useId()
  const described = hint || wrong ? `${id}-said` : undefined
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children(id, described)}
      {(wrong || hint) && (
        <span id={described} className={wrong ? 'wrong' : 'hint'}>
          {wrong ?? hint}
        </span>
      )}
    </div>
  )
}

/** Text is a field of one line. */
export function Text(props: {
  label: string
  value: string
  onChange: (value: string) => void
  hint?: ReactNode
  wrong?: string | undefined
  placeholder?: string
  required?: boolean
}) {
  return (
    <Field label={props.label} hint={props.hint} wrong={props.wrong}>
      {(id, described) => (
        <input
          id={id}
          className={props.wrong ? 'input bad' : 'input'}
          value={props.value}
          onChange={(e) => props.onChange(e.target.value)}
          placeholder={props.placeholder}
          required={props.required}
          aria-describedby={described}
          aria-invalid={props.wrong !== undefined}
          autoComplete="off"
          spellCheck={false}
        />
      )}
    </Field>
  )
}

/** Choice is a field with one of few values, all of which are shown. */
export function Choice<V extends string>({
  label,
  value,
  values,
  onChange,
}: {
  label: string
  value: V
  values: readonly (readonly [V, string])[]
  onChange: (value: V) => void
}) {
  return (
    <div className="field">
      <span className="label" aria-hidden="true">
        {label}
      </span>
      <span className="seg" role="group" aria-label={label}>
        {values.map(([v, words]) => (
          <button type="button" key={v} aria-pressed={v === value} onClick={() => onChange(v)}>
            {words}
          </button>
        ))}
      </span>
    </div>
  )
}

/** Pick is a field with one of many values. */
export function Pick(props: {
  label: string
  value: string
  values: readonly (readonly [value: string, words: string])[]
  onChange: (value: string) => void
  hint?: ReactNode
  wrong?: string | undefined
}) {
  const known = props.values.some(([v]) => v === props.value)
  return (
    <Field label={props.label} hint={props.hint} wrong={props.wrong}>
      {(id, described) => (
        <select
          id={id}
          className="input"
          value={props.value}
          onChange={(e) => props.onChange(e.target.value)}
          aria-describedby={described}
        >
          {!known && <option value={props.value}>{props.value}</option>}
          {props.values.map(([v, words]) => (
            <option key={v} value={v}>
              {words}
            </option>
          ))}
        </select>
      )}
    </Field>
  )
}

/** Count is a field with a number of things. */
export function Count(props: {
  label: string
  value: number
  min: number
  max: number
  onChange: (value: number) => void
  wrong?: string | undefined
}) {
  return (
    <Field label={props.label} wrong={props.wrong}>
      {(id, described) => (
        <NumberField.Root
          id={id}
          value={props.value}
          min={props.min}
          max={props.max}
          smallStep={1}
          format={{ maximumFractionDigits: 0, useGrouping: false }}
          onValueChange={(n) => n !== null && props.onChange(Math.round(n))}
        >
          <NumberField.Group className="step">
            <NumberField.Decrement aria-label={`${props.label}: one less`}>−</NumberField.Decrement>
            <NumberField.Input className="n" aria-describedby={described} />
            <NumberField.Increment aria-label={`${props.label}: one more`}>+</NumberField.Increment>
          </NumberField.Group>
        </NumberField.Root>
      )}
    </Field>
  )
}
