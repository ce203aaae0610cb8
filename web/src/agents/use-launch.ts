import { useCallback, useEffect, useRef } from 'react'
import { deleteAgent, launchAgent } from '../api/calls.ts'
import { ApiError, sentenceOf } from '../api/client.ts'
import type { LaunchBody } from '../api/shapes.ts'
import { useToast } from '../pieces/toasts.tsx'
import { departure, go } from '../routing.ts'
import { type DraftField, pathOf } from './draft.ts'

export interface Refusal {
  readonly message: string
  /** By the path in the body, such as `configuration.workingDirectory`. */
  readonly fields: ReadonlyMap<string, string>
}

/** What this page launched, whole: an answer of the server does not have all of it. */
const launched = new Map<string, LaunchBody>()
const mostRemembered = 200

export function settingsOf(id: string): LaunchBody | undefined {
  return launched.get(id)
}

/**
 * Launches, goes to the agent, and offers to take it back; a refusal comes back as what to say where. Who has left meanwhile, to another
 * place or by the door of a dialog, stays where they are, and where nobody is left to say a refusal, it is told by a toast.
 */
export function useLaunch(): (body: LaunchBody, isDismissed?: () => boolean) => Promise<Refusal | undefined> {
  const toast = useToast()
  const isThere = useRef(false)
  useEffect(() => {
    isThere.current = true
    return () => {
      isThere.current = false
    }
  }, [])
  return useCallback(
    async (body, isDismissed = () => false) => {
      const hasGone = departure()
      try {
        const { id } = await launchAgent(body)
        launched.set(id, body)
        for (const old of [...launched.keys()].slice(0, -mostRemembered)) launched.delete(old)
        if (!isDismissed() && !hasGone()) go('agents', id)
        toast({
          text: `Launched ${body.type}.`,
          undo: {
            label: 'Undo: stop and delete it',
            text: 'It was stopped and deleted; nothing of it is left.',
            run: async () => {
              if (window.location.hash.includes(id)) go('agents')
              await deleteAgent(id)
            },
          },
        })
        return undefined
      } catch (error) {
        if (!isThere.current) toast({ text: `Launch: ${sentenceOf(error)}`, tone: 'bad' })
        return { message: sentenceOf(error), fields: fieldsOf(error, body) }
      }
    },
    [toast],
  )
}

function fieldsOf(error: unknown, body: LaunchBody): ReadonlyMap<string, string> {
  const details = error instanceof ApiError && Array.isArray(error.details) ? (error.details as unknown[]) : []
  const said = details.flatMap((one) => {
    const { path, message } = (one ?? {}) as { path?: unknown; message?: unknown }
    return typeof path === 'string' && path !== '' && typeof message === 'string' ? [[path, message] as const] : []
  })
  if (said.length > 0) return new Map(said)
  const about = fieldQuoted(sentenceOf(error), body)
  return new Map(about === undefined ? [] : [[pathOf[about], sentenceOf(error)]])
}

/** What the server finds wrong in the world, not in the body, it names as it was written. */
function fieldQuoted(sentence: string, { configuration: { command, workingDirectory } = {} }: LaunchBody): DraftField | undefined {
  if (workingDirectory !== undefined && sentence.startsWith(`The working directory ${workingDirectory} `)) return 'workingDirectory'
  return Array.isArray(command) && sentence.startsWith(`${command[0]} `) ? 'command' : undefined
}
