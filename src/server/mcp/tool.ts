import type { ToolAnnotations } from '@modelcontextprotocol/server'
import type { z } from 'zod'
import type { Control } from '../../control.ts'
import type { Log } from '../../core/ports/log.ts'
import type { Asking } from './asking.ts'
import type { NotifyProgress } from './progress.ts'

/** One call of a tool, with valid arguments. */
export interface ToolCall<Arguments> {
  readonly args: Arguments
  readonly asking: Asking
  readonly control: Control
  readonly signal: AbortSignal
  readonly notify: NotifyProgress | undefined
}

/** Everything about one MCP tool. Each tool is a file in `tools/`, and a line in `tools/all.ts`. */
export interface ToolDefinition<Arguments extends z.ZodObject = z.ZodObject> {
  readonly name: string
  readonly title: string
  readonly description: string
  readonly callers: Callers
  readonly annotations: ToolAnnotations
  readonly arguments: Arguments
  readonly result: z.ZodObject
  run(call: ToolCall<z.output<Arguments>>): Promise<object>
  /** The answer of a failed call, where the usual one says too little. */
  failure?(error: unknown, tool: string, log: Log): object
}

/**
 * The callers of a tool. A tool for everybody may be called by agents, too: the task service then checks that the agent acts in its own
 * task and within its rights. A tool for the orchestrator refuses agents with a sentence.
 */
export type Callers = 'everybody' | { readonly only: 'orchestrator'; readonly refusal: string }

export const onlyOrchestrator = (refusal: string): Callers => ({ only: 'orchestrator', refusal })

/** Returns the definition unchanged. The compiler infers the type of the arguments from the call. */
export function defineTool<Arguments extends z.ZodObject>(definition: ToolDefinition<Arguments>): ToolDefinition<Arguments> {
  return definition
}

/** What a tool does to its surroundings, as clients ask their user about it. */
export const reading: ToolAnnotations = { readOnlyHint: true, openWorldHint: false }
export const adding: ToolAnnotations = { readOnlyHint: false, destructiveHint: false, idempotentHint: false, openWorldHint: false }
export const launching: ToolAnnotations = { ...adding, openWorldHint: true }
export const ending: ToolAnnotations = { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false }
