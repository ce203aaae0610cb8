/** A model that follows a script, for end-to-end tests with real agents: no key, no tokens, no network. */

export { type ModelOptions, type ModelRequest, type ScriptedModel, startScriptedModel } from './model.ts'
export type { Script } from './script.ts'
