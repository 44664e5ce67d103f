import './base.css';
import './panel.css';
import './advice.css';
import './job.css';
import './schedules.css';
import './pipelines.css';
import './sweeps.css';
