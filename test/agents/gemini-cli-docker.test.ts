import { itLeavesNothing } from './support/suite.ts'

itLeavesNothing('gemini-cli', 'docker')
