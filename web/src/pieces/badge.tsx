import type { ReactNode } from 'react'
import type { AgentStatus, ResourceState } from '../api/shapes.ts'

/** Badges show a state by colour, shape and word. Each of the three identifies the state alone, for accessibility. */

export type Tone = 'live' | 'wait' | 'good' | 'bad' | 'over' | 'alarm'

const shapes: Readonly<Record<Tone, ReactNode>> = {
  live: <circle cx="8" cy="8" r="5" className="badge__fill" />,
  wait: <circle cx="8" cy="8" r="4.5" className="badge__line" strokeDasharray="4 3" />,
  good: <path d="M3 8.500 6.500 12 13 4.500" className="badge__line" />,
  bad: <path d="M4 4l8 8M12 4l-8 8" className="badge__line" />,
  over: <rect x="4" y="4" width="8" height="8" rx="1" className="badge__fill" />,
  alarm: <path d="M8 1.500 15 14H1zM8 6v4M8 11.500v1" className="badge__line" />,
}

export function Badge({ tone, children }: { readonly tone: Tone; readonly children: ReactNode }) {
  return (
    <span className={`badge badge--${tone}`}>
      <svg width="12" height="12" viewBox="0 0 16 16" aria-hidden="true" focusable="false">
        {shapes[tone]}
      </svg>
      {children}
    </span>
  )
}

const statusTones: Readonly<Record<AgentStatus, Tone>> = {
  initializing: 'wait',
  running: 'live',
  stopping: 'wait',
  completed: 'good',
  failed: 'bad',
  terminated: 'over',
  stuck: 'alarm',
}

export function StatusBadge({ status }: { readonly status: AgentStatus }) {
  return <Badge tone={statusTones[status]}>{status}</Badge>
}

const stateTones: Readonly<Record<ResourceState, Tone>> = {
  intended: 'wait',
  held: 'live',
  closing: 'wait',
  released: 'good',
  stuck: 'alarm',
}

export function StateBadge({ state }: { readonly state: ResourceState }) {
  return <Badge tone={stateTones[state]}>{state}</Badge>
}
