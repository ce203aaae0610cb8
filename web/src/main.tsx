import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { App } from './app.tsx'
import { applyTheme } from './pieces/theme.tsx'
import './styles/base.css'
import './styles/controls.css'
import './styles/pieces.css'
import './styles/overlays.css'
import './styles/table.css'
import './styles/agents.css'
import './styles/agent.css'
import './styles/cleanup.css'
import './styles/waterfall.css'
import './styles/system.css'

applyTheme()
const container = document.getElementById('root')
if (container)
  createRoot(container).render(
    <StrictMode>
      <App />
    </StrictMode>,
  )
