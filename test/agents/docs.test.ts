import { expect, it } from 'vitest'
import { examplesOf, realAgents, testsIn } from '../support/documents.ts'
import { userProject, vitest } from '../support/user-project.ts'

/** Runs the examples of the documentation page about real agents in a user's project, with the real claude. */
for (const { name, body } of examplesOf(realAgents)) {
  it(`${realAgents}: ${name} runs`, async () => {
    const project = userProject()
    project.write(name, body)
    const ran = await project.run([vitest, 'run', name], { PATH: `${process.env.EBB_AGENT_CLIS}:${process.env.PATH}` })
    expect(ran).toEqual({ code: 0, stdout: expect.stringMatching(new RegExp(`\\b${testsIn(body)} passed`)), stderr: '' })
  })
}
