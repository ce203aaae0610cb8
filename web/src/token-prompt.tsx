import { useEffect, useRef, useState } from 'react'
import { setToken, token } from './api/token.ts'
import { ViewHead } from './pieces/view-head.tsx'

/** The server has one and has not been shown it, or another. */
export function TokenPrompt() {
  const [given, setGiven] = useState('')
  const wasWrong = token() !== undefined
  const field = useRef<HTMLInputElement>(null)
  // It comes anew with every refusal, and there is nothing else to do here.
  useEffect(() => field.current?.focus(), [])
  return (
    <div className="token">
      <ViewHead title="This server wants its token" documentTitle="Token" />
      <p>
        It was started with <code>--token</code>. The token stays in this tab, and is gone when you close it.
      </p>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          if (given.trim() !== '') setToken(given.trim())
        }}
      >
        <label className="field">
          <span className="field__label">Token</span>
          <input
            ref={field}
            type="password"
            autoComplete="off"
            value={given}
            onChange={(event) => setGiven(event.target.value)}
            aria-invalid={wasWrong}
            aria-describedby={wasWrong ? 'token-problem' : undefined}
          />
          {wasWrong && (
            <span className="field__problem" id="token-problem">
              The server did not take the last one; look at the start of "ebb serve", or into server.json of its home.
            </span>
          )}
        </label>
        <button type="submit" className="button button--primary">
          Use this token
        </button>
      </form>
    </div>
  )
}
