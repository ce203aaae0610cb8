/** A model server that answers from a script, for end-to-end tests with real agents. It needs no API key, no tokens and no network. */

export type { ModelRequest } from './memory.ts'
export { type ModelOptions, type ScriptedModel, startScriptedModel } from './model.ts'
export type { Script } from './script.ts'
