import { useCallback, useEffect, useRef } from 'react'
import { deleteAgent, launchAgent } from '../api/calls.ts'
import { ApiError, sentenceOf } from '../api/client.ts'
import type { LaunchBody } from '../api/shapes.ts'
import { useToast } from '../pieces/toasts.tsx'
import { departure, go } from '../routing.ts'
import { type DraftField, pathOf } from './draft.ts'

export interface Refusal {
  readonly message: string
  /** Error messages by path in the request body, such as `configuration.workingDirectory`. */
  readonly fields: ReadonlyMap<string, string>
}

/** The complete request bodies of the agents launched from this page. The server does not return all of their settings. */
const launched = new Map<string, LaunchBody>()
const mostRemembered = 200

export function settingsOf(id: string): LaunchBody | undefined {
  return launched.get(id)
}

/**
 * Launches an agent, navigates to it, and offers an undo. A refusal is returned with its message and the fields it is about. If the
 * user has navigated away or closed the dialog meanwhile, the page stays where it is. If the calling component is unmounted, a
 * refusal is shown as a toast.
 */
export function useLaunch(): (body: LaunchBody, isDismissed?: () => boolean) => Promise<Refusal | undefined> {
  const toast = useToast()
  const isMounted = useRef(false)
  useEffect(() => {
    isMounted.current = true
    return () => {
      isMounted.current = false
    }
  }, [])
  return useCallback(
    async (body, isDismissed = () => false) => {
      const hasLeft = departure()
      try {
        const { id } = await launchAgent(body)
        launched.set(id, body)
        for (const old of [...launched.keys()].slice(0, -mostRemembered)) launched.delete(old)
        if (!isDismissed() && !hasLeft()) go('agents', id)
        toast({
          text: `Agent launched (${body.type}).`,
          undo: {
            label: 'Undo: stop and delete',
            text: 'Stopped and deleted. Nothing of the agent is left.',
            run: async () => {
              if (window.location.hash.includes(id)) go('agents')
              await deleteAgent(id)
            },
          },
        })
        return undefined
      } catch (error) {
        if (!isMounted.current) toast({ text: `Launch failed: ${sentenceOf(error)}`, tone: 'bad' })
        return { message: sentenceOf(error), fields: fieldsOf(error, body) }
      }
    },
    [toast],
  )
}

function fieldsOf(error: unknown, body: LaunchBody): ReadonlyMap<string, string> {
  const details = error instanceof ApiError && Array.isArray(error.details) ? (error.details as unknown[]) : []
  const found = details.flatMap((detail) => {
    const { path, message } = (detail ?? {}) as { path?: unknown; message?: unknown }
    return typeof path === 'string' && path !== '' && typeof message === 'string' ? [[path, message] as const] : []
  })
  if (found.length > 0) return new Map(found)
  const field = fieldQuoted(sentenceOf(error), body)
  return new Map(field === undefined ? [] : [[pathOf[field], sentenceOf(error)]])
}

/**
 * The field that an error message is about, if the message begins with the field's value. The server reports problems that it finds on
 * its machine this way, such as a missing program, without a path in the body.
 */
function fieldQuoted(sentence: string, { configuration: { command, workingDirectory } = {} }: LaunchBody): DraftField | undefined {
  if (workingDirectory !== undefined && sentence.startsWith(`The working directory ${workingDirectory} `)) return 'workingDirectory'
  return Array.isArray(command) && sentence.startsWith(`${command[0]} `) ? 'command' : undefined
}
