// The entry point.

import { deadPage } from "./dead.js";
import { jobPage } from "./job.js";
import { overview } from "./overview.js";
import { search } from "./search.js";
import { banner, listen } from "./stream.js";
import { tick } from "./time.js";

const pages = { dead: deadPage, job: jobPage, overview: () => overview };
const show = pages[document.body.dataset.page]();
setInterval(() => { tick(); banner(); }, 1000);
search();
listen(show);
