// Everything here is also possible without it: links and forms stand in the pages.
import { startForms } from "./forms.js";
import { startPanels } from "./panels.js";
import { startLive } from "./live.js";
import { startDrops } from "./drop.js";
import { startLogs } from "./log.js";

startForms();
startPanels();
startLive();
startDrops();
startLogs();
