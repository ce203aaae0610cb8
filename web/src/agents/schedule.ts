/** A short conversation for the synthetic agent, with a message of each kind. */
export const exampleSchedule = [
  { delay: 300, type: 'message', data: { type: 'system', content: 'A synthetic agent has started.' } },
  { delay: 900, type: 'message', data: { content: 'I list the files first.' } },
  {
    delay: 1_800,
    type: 'message',
    data: { type: 'tool', content: 'Bash: ls -1\nREADME.md\nsrc\ntest', metadata: { tool: 'Bash' } },
  },
  { delay: 3_000, type: 'message', data: { content: 'All files are in place.' } },
  { delay: 4_500, type: 'message', data: { type: 'response', content: 'done: 3 entries listed' } },
  { delay: 5_500, type: 'message', data: { content: 'The agent ends now, and Ebb verifies that nothing is left.' } },
  { delay: 6_000, type: 'complete', data: { success: true } },
] as const
