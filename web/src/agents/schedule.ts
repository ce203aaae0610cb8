/** A short play with everything that a conversation can have, for the synthetic agent. */
export const exampleSchedule = [
  { delay: 300, type: 'message', data: { type: 'system', content: 'A synthetic agent has begun.' } },
  { delay: 900, type: 'message', data: { content: 'I look at the beach first.' } },
  {
    delay: 1_800,
    type: 'message',
    data: { type: 'tool', content: 'Bash: ls beach\nshells\nseaweed\na forgotten process', metadata: { tool: 'Bash' } },
  },
  { delay: 3_000, type: 'message', data: { content: 'Something was left there. The next tide takes it.' } },
  { delay: 4_500, type: 'message', data: { type: 'response', content: 'done: 1 thing released, and seen gone' } },
  { delay: 5_500, type: 'message', data: { content: 'The tide goes out, and the beach is clean.' } },
  { delay: 6_000, type: 'complete', data: { success: true } },
] as const
