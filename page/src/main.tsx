// First, so that the styles of the shell and of views come after it.
import './style.css'
import { render } from 'preact'
import { App } from './app'
import { start } from './router'
import { startTheme } from './theme'
import { tick } from './time'

startTheme()
start()
// Ages move while somebody looks at them, and at once when somebody looks again.
setInterval(() => {
  if (document.visibilityState === 'visible') tick()
}, 1000)
document.addEventListener('visibilitychange', tick)

const root = document.getElementById('page')
if (root !== null) render(<App />, root)
