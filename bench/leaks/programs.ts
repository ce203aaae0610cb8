import type { Program } from './program.ts'
import { agentPrograms } from './programs/agents.ts'
import { zooPrograms } from './programs/zoo.ts'

export const programs: readonly Program[] = [...zooPrograms, ...agentPrograms]
